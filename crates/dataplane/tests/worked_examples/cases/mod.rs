//! The worked examples, shared by the tests and the program `router_examples`.

/// One worked example.
#[derive(Debug)]
pub(crate) struct Case {
    /// Its number, `W01` and so on.
    pub(crate) number: &'static str,
    /// What it shows.
    pub(crate) title: &'static str,
    /// Runs it; the error says what differs.
    pub(crate) run: fn() -> Result<(), String>,
}

/// Makes a table `CASES` of functions, and a test of each.
macro_rules! worked_examples {
    ($($number:literal $run:ident $title:literal;)*) => {
        pub(super) const CASES: &[$crate::cases::Case] = &[$(
            $crate::cases::Case { number: $number, title: $title, run: $run },
        )*];

        #[cfg(test)]
        mod tests {
            $(
                #[test]
                fn $run() {
                    $crate::cases::check($number);
                }
            )*
        }
    };
}

mod disagg;
mod filters;
mod flow;
mod gateways;
mod indexes;
mod profiles;
pub(crate) mod queues;
mod saturation;
mod scorers;
pub(crate) mod support;

/// All of them, in the order of their numbers.
pub(crate) fn all() -> Vec<&'static Case> {
    let modules = [
        scorers::CASES,
        profiles::CASES,
        filters::CASES,
        disagg::CASES,
        flow::CASES,
        indexes::CASES,
        saturation::CASES,
    ];
    let mut cases: Vec<_> = modules.into_iter().flatten().collect();
    cases.sort_by_key(|case| case.number);
    cases
}

/// Runs one of them.
#[cfg(test)]
fn check(number: &str) {
    let all = all();
    let case = all.iter().find(|case| case.number == number);
    let case = case.expect("the example is in a table");
    if let Err(difference) = (case.run)() {
        panic!("{number} {}: {difference}", case.title);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_number_is_there_once() {
        let numbers: Vec<_> = super::all().iter().map(|case| case.number).collect();
        let all: Vec<_> = (1..=56).map(|number| format!("W{number:02}")).collect();
        assert_eq!(numbers, all);
    }
}
