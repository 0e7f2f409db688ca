//! Worked examples of the data producers.

mod cases;

#[test]
fn w22() -> Result<(), String> {
    cases::w22()
}
#[test]
fn w23() -> Result<(), String> {
    cases::w23()
}
#[test]
fn w24() -> Result<(), String> {
    cases::w24()
}
#[test]
fn w25() -> Result<(), String> {
    cases::w25()
}
#[test]
fn w54() -> Result<(), String> {
    cases::w54()
}
#[test]
fn w55() -> Result<(), String> {
    cases::w55()
}
