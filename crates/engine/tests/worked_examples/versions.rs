//! What later versions do differently.

use crate::table::check;

/// S12 in version 0.33: b does not lose its turn.
#[test]
fn after_a_self_preemption_the_others_go_on() {
    check(
        "
        usable 6, budget 64, seqs 4, priority, semantics 0.33
        a: step 0, A[8], 8 out, priority 5
        b: step 1, B[8], 8 out, priority 0
        --
        0  | a:8     | 2 | a / -   | +a   | a        | 2
        1  | a:1 b:8 | 5 | a b / - | +b   | a b      | 5
        2  | a:1 b:1 | 6 | a b / - | -    | a b      | 6
        3  | a:1 b:1 | 6 | a b / - | -    | a b      | 6
        4  | a:1 b:1 | 6 | a b / - | -    | a b      | 6
        5  | b:1     | 3 | b / a   | !a   | b        | 3
        6  | b:1     | 4 | b / a   | -    | b        | 4
        7  | b:1     | 4 | b / a   | -    | b        | 4
        8  | b:1     | 4 | b / a   | -    | b=length | 0
        9  | a:5     | 4 | a / -   | ~a@8 | a        | 4
        10 | a:1     | 4 | a / -   | -    | a        | 4
        11 | a:1     | 4 | a / -   | -    | a=length | 0
        ",
    );
}

/// S43 in version 0.33: b waits until all of it fits, and is never preempted.
#[test]
fn the_gate_admits_only_what_fits_as_a_whole() {
    check(
        "
        usable 8, budget 9, seqs 4, semantics 0.33
        a: step 0, A[12], 9 out
        b: step 1, B[24], 1 out
        --
        0  | a:9 | 3 | a / - | +a | -        | 3
        1  | a:3 | 3 | a / b | -  | a        | 3
        2  | a:1 | 4 | a / b | -  | a        | 4
        3  | a:1 | 4 | a / b | -  | a        | 4
        4  | a:1 | 4 | a / b | -  | a        | 4
        5  | a:1 | 4 | a / b | -  | a        | 4
        6  | a:1 | 5 | a / b | -  | a        | 5
        7  | a:1 | 5 | a / b | -  | a        | 5
        8  | a:1 | 5 | a / b | -  | a        | 5
        9  | a:1 | 5 | a / b | -  | a=length | 0
        10 | b:9 | 3 | b / - | +b | -        | 3
        11 | b:9 | 5 | b / - | -  | -        | 5
        12 | b:6 | 6 | b / - | -  | b=length | 0
        ",
    );
}

/// A partial block is reused before cached ones, so that a prefix lives longer.
#[test]
fn blocks_without_a_key_are_reused_first() {
    let scenario = |semantics: &str, hit: &str, tokens: u32| {
        check(&format!(
            "
            usable 4, budget 64, seqs 4{semantics}
            a: step 0, A[6], 1 out
            b: step 1, B[6], 1 out
            c: step 2, C[2], 1 out
            d: step 3, D[2], 1 out
            e: step 4, E[2], 1 out
            f: step 5, A[6], 1 out
            --
            0 | a:6        | 2 | a / - | +a    | a=length | 0
            1 | b:6        | 2 | b / - | +b    | b=length | 0
            2 | c:2        | 1 | c / - | +c    | c=length | 0
            3 | d:2        | 1 | d / - | +d    | d=length | 0
            4 | e:2        | 1 | e / - | +e    | e=length | 0
            5 | f:{tokens} | 2 | f / - | +f{hit} | f=length | 0
            "
        ));
    };
    scenario("", "", 6);
    scenario(", semantics 0.33", "@4", 2);
}

#[test]
fn the_only_request_ignores_the_threshold() {
    check(
        "
        usable 40, budget 64, seqs 4, threshold 4, semantics 0.33
        a: step 0, A[8], 2 out
        b: step 1, B[8], 1 out
        --
        0 | a:8     | 2 | a / -   | +a | a        | 2
        1 | a:1 b:4 | 4 | a b / - | +b | a=length | 1
        2 | b:4     | 2 | b / -   | -  | b=length | 0
        ",
    );
}

#[test]
fn a_victim_passed_over_costs_nobody_a_turn() {
    check(
        "
        usable 7, budget 64, seqs 4, threshold 8, priority, asynchronous, semantics 0.33
        a: step 0, A[2], 3 out, priority 9
        b: step 1, B[24], 1 out, priority 0
        c: step 1, C[1], 4 out, priority 5
        --
        0 | a:2         | 1 | a / -     | +a    | - (-)          | 1
        1 | a:1 b:8 c:1 | 4 | a b c / - | +b +c | a (0)          | 4
        2 | a:1 b:8 c:1 | 6 | a b c / - | -     | a c (1)        | 6
        3 | b:8 c:1     | 7 | b c / a   | !a    | a=length c (2) | 7
        4 | c:1         | 7 | b c / -   | -     | b=length c (3) | 1
        5 | -           | 1 | c / -     | -     | c=length (4)   | 0
        ",
    );
}
