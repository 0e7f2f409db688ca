//! Whose blocks are taken, and how a victim comes back.

use crate::table::check;

/// S07.
#[test]
fn the_last_admitted_is_preempted_and_finds_what_nobody_took() {
    check(
        "
        usable 6, budget 64, seqs 4
        a: step 0, A[8], 8 out
        b: step 0, B[8], 8 out
        --
        0  | a:8 b:8 | 4 | a b / - | +a +b | a b      | 4
        1  | a:1 b:1 | 6 | a b / - | -     | a b      | 6
        2  | a:1 b:1 | 6 | a b / - | -     | a b      | 6
        3  | a:1 b:1 | 6 | a b / - | -     | a b      | 6
        4  | a:1 b:1 | 6 | a b / - | -     | a b      | 6
        5  | a:1     | 4 | a / b   | !b    | a        | 4
        6  | a:1     | 4 | a / b   | -     | a        | 4
        7  | a:1     | 4 | a / b   | -     | a=length | 0
        8  | b:5     | 4 | b / -   | ~b@8  | b        | 4
        9  | b:1     | 4 | b / -   | -     | b        | 4
        10 | b:1     | 4 | b / -   | -     | b=length | 0
        ",
    );
}

/// S08.
#[test]
fn a_request_that_is_last_preempts_itself() {
    check(
        "
        usable 5, budget 64, seqs 4
        a: step 0, A[9], 7 out
        b: step 0, B[7], 5 out
        --
        0 | a:9 b:7 | 5 | a b / - | +a +b | a b      | 5
        1 | a:1 b:1 | 5 | a b / - | -     | a b      | 5
        2 | a:1     | 3 | a / b   | !b    | a        | 3
        3 | a:1     | 3 | a / b   | -     | a        | 3
        4 | a:1     | 4 | a / b   | -     | a        | 4
        5 | a:1     | 4 | a / b   | -     | a        | 4
        6 | a:1     | 4 | a / b   | -     | a=length | 0
        7 | b:5     | 3 | b / -   | ~b@4  | b        | 3
        8 | b:1     | 3 | b / -   | -     | b        | 3
        9 | b:1     | 3 | b / -   | -     | b=length | 0
        ",
    );
}

/// S09.
#[test]
fn nobody_is_admitted_in_a_step_with_a_preemption() {
    check(
        "
        usable 6, budget 64, seqs 2, priority
        a: step 0, A[8], 7 out, priority 0, time 0
        b: step 0, B[8], 6 out, priority 5, time 1
        c: step 1, C[2], 2 out, priority 1, time 2
        --
        0 | a:8 b:8 | 4 | a b / - | +a +b | a b               | 4
        1 | a:1 b:1 | 6 | a b / c | -     | a b               | 6
        2 | a:1 b:1 | 6 | a b / c | -     | a b               | 6
        3 | a:1 b:1 | 6 | a b / c | -     | a b               | 6
        4 | a:1 b:1 | 6 | a b / c | -     | a b               | 6
        5 | a:1     | 4 | a / c b | !b    | a                 | 4
        6 | a:1 c:2 | 5 | a c / b | +c    | a=length c        | 1
        7 | c:1 b:9 | 5 | c b / - | ~b@4  | c=length b=length | 0
        ",
    );
}

/// S10.
#[test]
fn victims_are_taken_one_by_one_and_keep_their_order() {
    check(
        "
        usable 8, budget 64, seqs 4, threshold 8
        a: step 0, A[32], 1 out
        b: step 0, B[2], 6 out
        c: step 0, C[2], 6 out
        --
        0 | a:8 b:2 c:2 | 4 | a b c / - | +a +b +c | b c               | 4
        1 | a:8 b:1 c:1 | 6 | a b c / - | -        | b c               | 6
        2 | a:8 b:1 c:1 | 8 | a b c / - | -        | b c               | 8
        3 | a:8         | 8 | a / b c   | !c !b    | a=length          | 0
        4 | b:5 c:5     | 4 | b c / -   | ~b ~c    | b c               | 4
        5 | b:1 c:1     | 4 | b c / -   | -        | b c               | 4
        6 | b:1 c:1     | 4 | b c / -   | -        | b=length c=length | 0
        ",
    );
}

/// S12.
#[test]
fn after_a_self_preemption_the_rest_gets_nothing() {
    check(
        "
        usable 6, budget 64, seqs 4, priority
        a: step 0, A[8], 8 out, priority 5
        b: step 1, B[8], 8 out, priority 0
        --
        0  | a:8     | 2 | a / -   | +a   | a        | 2
        1  | a:1 b:8 | 5 | a b / - | +b   | a b      | 5
        2  | a:1 b:1 | 6 | a b / - | -    | a b      | 6
        3  | a:1 b:1 | 6 | a b / - | -    | a b      | 6
        4  | a:1 b:1 | 6 | a b / - | -    | a b      | 6
        5  | -       | 3 | b / a   | !a   | -        | 3
        6  | b:1     | 3 | b / a   | -    | b        | 3
        7  | b:1     | 4 | b / a   | -    | b        | 4
        8  | b:1     | 4 | b / a   | -    | b        | 4
        9  | b:1     | 4 | b / a   | -    | b=length | 0
        10 | a:5     | 4 | a / -   | ~a@8 | a        | 4
        11 | a:1     | 4 | a / -   | -    | a        | 4
        12 | a:1     | 4 | a / -   | -    | a=length | 0
        ",
    );
}

/// S13.
#[test]
fn a_victim_planned_already_gives_its_tokens_back() {
    check(
        "
        usable 7, budget 64, seqs 4, priority
        a: step 0, A[8], 8 out, priority 9
        b: step 1, B[8], 6 out, priority 0
        c: step 1, C[6], 6 out, priority 0
        --
        0  | a:8         | 2 | a / -     | +a    | a                 | 2
        1  | a:1 b:8 c:6 | 7 | a b c / - | +b +c | a b c             | 7
        2  | b:1 c:1     | 5 | b c / a   | !a    | b c               | 5
        3  | b:1 c:1     | 5 | b c / a   | -     | b c               | 5
        4  | b:1 c:1     | 6 | b c / a   | -     | b c               | 6
        5  | b:1 c:1     | 6 | b c / a   | -     | b c               | 6
        6  | b:1 c:1     | 7 | b c / a   | -     | b=length c=length | 0
        7  | a:10        | 3 | a / -     | ~a    | a                 | 3
        8  | a:1         | 3 | a / -     | -     | a                 | 3
        9  | a:1         | 3 | a / -     | -     | a                 | 3
        10 | a:1         | 4 | a / -     | -     | a                 | 4
        11 | a:1         | 4 | a / -     | -     | a                 | 4
        12 | a:1         | 4 | a / -     | -     | a=length          | 0
        ",
    );
}

/// S21.
#[test]
fn without_caching_a_victim_starts_from_nothing() {
    check(
        "
        usable 6, budget 64, seqs 4, caching off
        a: step 0, A[8], 8 out
        b: step 0, B[8], 8 out
        --
        0  | a:8 b:8 | 4 | a b / - | +a +b | a b      | 4
        1  | a:1 b:1 | 6 | a b / - | -     | a b      | 6
        2  | a:1 b:1 | 6 | a b / - | -     | a b      | 6
        3  | a:1 b:1 | 6 | a b / - | -     | a b      | 6
        4  | a:1 b:1 | 6 | a b / - | -     | a b      | 6
        5  | a:1     | 4 | a / b   | !b    | a        | 4
        6  | a:1     | 4 | a / b   | -     | a        | 4
        7  | a:1     | 4 | a / b   | -     | a=length | 0
        8  | b:13    | 4 | b / -   | ~b    | b        | 4
        9  | b:1     | 4 | b / -   | -     | b        | 4
        10 | b:1     | 4 | b / -   | -     | b=length | 0
        ",
    );
}

/// A chunk behind few hits is admitted although its whole sequence cannot fit, and is preempted
/// again: version 0.15.1 thrashes.
#[test]
fn a_short_chunk_comes_back_at_once_and_is_preempted_again() {
    check(
        "
        usable 5, budget 64, seqs 4, threshold 4, caching off
        a: step 0, A[8], 6 out
        b: step 0, B[16], 1 out
        --
        0 | a:4 b:4 | 2 | a b / - | +a +b | -        | 2
        1 | a:4 b:4 | 4 | a b / - | -     | a        | 4
        2 | a:1     | 3 | a / b   | !b    | a        | 3
        3 | a:1 b:4 | 4 | a b / - | ~b    | a        | 4
        4 | a:1 b:4 | 5 | a b / - | -     | a        | 5
        5 | a:1     | 3 | a / b   | !b    | a        | 3
        6 | a:1 b:4 | 5 | a b / - | ~b    | a=length | 1
        7 | b:4     | 2 | b / -   | -     | -        | 2
        8 | b:4     | 3 | b / -   | -     | -        | 3
        9 | b:4     | 4 | b / -   | -     | b=length | 0
        ",
    );
}

/// A victim that is passed over in this step (its end is in flight) stands before the needy
/// request; the second victim behind it is found all the same.
#[test]
fn asynchronously_a_victim_passed_over_is_followed_by_another() {
    check(
        "
        usable 6, budget 64, seqs 4, threshold 8, priority, asynchronous
        a: step 0, A[2], 3 out, priority 9
        b: step 1, B[24], 1 out, priority 0
        c: step 1, C[2], 3 out, priority 5
        --
        0 | a:2         | 1 | a / -     | +a    | - (-)          | 1
        1 | a:1 b:8 c:2 | 4 | a b c / - | +b +c | a (0)          | 4
        2 | a:1 b:8 c:1 | 6 | a b c / - | -     | a c (1)        | 6
        3 | b:8         | 6 | b / c a   | !a !c | a=length c (2) | 6
        4 | -           | 6 | b / c     | -     | b=length (3)   | 0
        5 | c:4         | 1 | c / -     | ~c    | - (4)          | 1
        6 | -           | 1 | c / -     | -     | c=length (5)   | 0
        ",
    );
}

/// The removal of a victim that was passed over makes the request behind the needy one lose its
/// turn.
#[test]
fn asynchronously_a_victim_passed_over_costs_the_next_its_turn() {
    check(
        "
        usable 7, budget 64, seqs 4, threshold 8, priority, asynchronous
        a: step 0, A[2], 3 out, priority 9
        b: step 1, B[24], 1 out, priority 0
        c: step 1, C[1], 4 out, priority 5
        --
        0 | a:2         | 1 | a / -     | +a    | - (-)          | 1
        1 | a:1 b:8 c:1 | 4 | a b c / - | +b +c | a (0)          | 4
        2 | a:1 b:8 c:1 | 6 | a b c / - | -     | a c (1)        | 6
        3 | b:8         | 7 | b c / a   | !a    | a=length c (2) | 7
        4 | c:1         | 7 | b c / -   | -     | b=length (3)   | 1
        5 | c:1         | 1 | c / -     | -     | c (4)          | 1
        6 | -           | 1 | c / -     | -     | c=length (5)   | 0
        ",
    );
}

/// A request behind the needy one uses the budget that the victim gave back: c computes six tokens
/// in step 4, not five.
#[test]
fn the_budget_of_a_victim_goes_to_those_behind() {
    check(
        "
        usable 6, budget 7, seqs 4, threshold 6, priority, caching off
        a: step 0, A[9], 4 out, priority 9
        b: step 2, B[8], 2 out, priority 0
        c: step 2, C[12], 1 out, priority 1
        --
        0 | a:6         | 2 | a / -     | +a | -        | 2
        1 | a:3         | 3 | a / -     | -  | a        | 3
        2 | a:1 b:6     | 5 | a b / c   | +b | a        | 5
        3 | a:1 b:2 c:4 | 6 | a b c / - | +c | a b      | 6
        4 | b:1 c:6     | 6 | b c / a   | !a | b=length | 3
        5 | c:2 a:5     | 5 | c a / -   | ~a | c=length | 2
        6 | a:6         | 3 | a / -     | -  | -        | 3
        7 | a:1         | 3 | a / -     | -  | a=length | 0
        ",
    );
}
