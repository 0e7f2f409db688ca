//! How requests end, and how the two loops differ.

use crate::table::check;

/// S22.
#[test]
fn the_longest_sequence_ends_a_request_before_its_limit() {
    check(
        "
        usable 40, budget 64, seqs 4, longest 12
        a: step 0, A[9], 50 out
        b: step 0, B[11], 50 out
        --
        0 | a:9 b:11 | 6 | a b / - | +a +b | a b=length | 3
        1 | a:1      | 3 | a / -   | -     | a          | 3
        2 | a:1      | 3 | a / -   | -     | a=length   | 0
        ",
    );
}

/// S23.
#[test]
fn an_end_of_sequence_ends_a_request() {
    check(
        "
        usable 40, budget 64, seqs 4
        a: step 0, A[4], 10 out, eos 3
        b: step 0, B[4], 4 out
        --
        0 | a:4 b:4 | 2 | a b / - | +a +b | a b      | 2
        1 | a:1 b:1 | 4 | a b / - | -     | a b      | 4
        2 | a:1 b:1 | 4 | a b / - | -     | a=stop b | 2
        3 | b:1     | 2 | b / -   | -     | b=length | 0
        ",
    );
}

/// S24.
#[test]
fn asynchronously_an_end_of_sequence_costs_one_wasted_slot() {
    check(
        "
        usable 40, budget 64, seqs 4, asynchronous
        a: step 0, A[4], 10 out, eos 3
        b: step 0, B[4], 6 out
        --
        0 | a:4 b:4 | 2 | a b / - | +a +b | - (-)        | 2
        1 | a:1 b:1 | 4 | a b / - | -     | a b (0)      | 4
        2 | a:1 b:1 | 4 | a b / - | -     | a b (1)      | 4
        3 | a:1 b:1 | 4 | a b / - | -     | a=stop b (2) | 2
        4 | b:1     | 2 | b / -   | -     | b (3)        | 2
        5 | b:1     | 3 | b / -   | -     | b (4)        | 3
        6 | -       | 3 | b / -   | -     | b=length (5) | 0
        ",
    );
}

/// S25.
#[test]
fn asynchronously_a_length_end_is_anticipated() {
    check(
        "
        usable 40, budget 6, seqs 4, asynchronous
        a: step 0, A[8], 3 out
        b: step 1, B[2], 2 out
        --
        0 | a:6     | 2 | a / -   | +a | - (-)          | 2
        1 | a:2 b:2 | 3 | a b / - | +b | - (0)          | 3
        2 | a:1 b:1 | 4 | a b / - | -  | a b (1)        | 4
        3 | a:1     | 4 | a b / - | -  | a b=length (2) | 3
        4 | -       | 3 | a / -   | -  | a=length (3)   | 0
        ",
    );
}

/// S26.
#[test]
fn asynchronously_a_victim_still_gets_the_token_in_flight() {
    check(
        "
        usable 6, budget 64, seqs 4, asynchronous
        a: step 0, A[8], 8 out
        b: step 0, B[8], 8 out
        --
        0  | a:8 b:8 | 4 | a b / - | +a +b | - (-)         | 4
        1  | a:1 b:1 | 6 | a b / - | -     | a b (0)       | 6
        2  | a:1 b:1 | 6 | a b / - | -     | a b (1)       | 6
        3  | a:1 b:1 | 6 | a b / - | -     | a b (2)       | 6
        4  | a:1 b:1 | 6 | a b / - | -     | a b (3)       | 6
        5  | a:1     | 4 | a / b   | !b    | a b (4)       | 4
        6  | a:1     | 4 | a / b   | -     | a (5)         | 4
        7  | a:1     | 4 | a / b   | -     | a (6)         | 4
        8  | -       | 4 | a / b   | -     | a=length (7)  | 0
        9  | b:5     | 4 | b / -   | ~b@8  | - (8)         | 4
        10 | b:1     | 4 | b / -   | -     | b (9)         | 4
        11 | b:1     | 4 | b / -   | -     | b (10)        | 4
        12 | -       | 4 | b / -   | -     | b=length (11) | 0
        ",
    );
}

/// End-of-sequence is looked for before the limits.
#[test]
fn an_end_of_sequence_at_the_limit_is_a_stop() {
    check(
        "
        usable 40, budget 64, seqs 4, longest 6
        a: step 0, A[4], 2 out, eos 2
        b: step 0, B[4], 9 out, eos 2
        c: step 0, C[4], 9 out, eos 3
        --
        0 | a:4 b:4 c:4 | 3 | a b c / - | +a +b +c | a b c                | 3
        1 | a:1 b:1 c:1 | 6 | a b c / - | -        | a=stop b=stop c=length | 0
        ",
    );
}

/// Only `max_tokens` is anticipated. At the longest sequence there is no position left, so nothing
/// is wasted, but the seat is held until the output is there.
#[test]
fn asynchronously_the_longest_sequence_leaves_no_position_to_waste() {
    check(
        "
        usable 40, budget 64, seqs 4, longest 6, asynchronous
        a: step 0, A[4], 9 out
        --
        0 | a:4 | 1 | a / - | +a | - (-)        | 1
        1 | a:1 | 2 | a / - | -  | a (0)        | 2
        2 | -   | 2 | a / - | -  | a=length (1) | 0
        ",
    );
}

/// A victim whose last token is in flight ends while it waits.
#[test]
fn asynchronously_a_victim_can_end_while_it_waits() {
    check(
        "
        usable 4, budget 64, seqs 4, asynchronous
        a: step 0, A[8], 3 out
        b: step 0, B[8], 9 out, eos 1
        --
        0 | a:8 b:8 | 4 | a b / - | +a +b | - (-)        | 4
        1 | a:1     | 3 | a / b   | !b    | a b=stop (0) | 3
        2 | a:1     | 3 | a / -   | -     | a (1)        | 3
        3 | -       | 3 | a / -   | -     | a=length (2) | 0
        ",
    );
}
