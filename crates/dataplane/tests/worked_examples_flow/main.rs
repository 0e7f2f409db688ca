//! Small scenarios of saturation, admission and flow control whose every answer is known.
//!
//! W30 to W52 are llm-d's answers: most were recorded from its own code, some worked out by hand. Each
//! is a function of its own, so that other programs can list and run them. `books` has what llm-d does not
//! decide.

mod books;
mod flow;
mod saturation;
mod support;

macro_rules! examples {
    ($($module:ident: $($example:ident)+;)+) => {
        $($(
            #[test]
            fn $example() {
                if let Err(difference) = $module::$example() {
                    panic!("{difference}");
                }
            }
        )+)+
    };
}

examples! {
    saturation: w30 w31 w32 w33 w34 w35 w36 w37;
    flow: w38 w39 w40 w41 w42 w43 w44 w45 w46 w47 w48 w49 w50 w51 w52;
}
