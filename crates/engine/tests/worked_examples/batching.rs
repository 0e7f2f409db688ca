//! How budget, seats and memory are shared, and in which order.

use crate::table::check;

/// S01.
#[test]
fn a_second_prefill_uses_the_budget_that_the_first_leaves_over() {
    check(
        "
        usable 20, budget 8, seqs 4
        a: step 0, A[10], 3 out
        b: step 0, B[5], 3 out
        --
        0 | a:8     | 2 | a / b   | +a | -                 | 2
        1 | a:2 b:5 | 5 | a b / - | +b | a b               | 5
        2 | a:1 b:1 | 5 | a b / - | -  | a b               | 5
        3 | a:1 b:1 | 5 | a b / - | -  | a=length b=length | 0
        ",
    );
}

/// S02.
#[test]
fn a_block_is_taken_in_the_step_that_computes_its_first_token() {
    check(
        "
        usable 20, budget 16, seqs 4
        a: step 0, A[8], 6 out
        --
        0 | a:8 | 2 | a / - | +a | a        | 2
        1 | a:1 | 3 | a / - | -  | a        | 3
        2 | a:1 | 3 | a / - | -  | a        | 3
        3 | a:1 | 3 | a / - | -  | a        | 3
        4 | a:1 | 3 | a / - | -  | a        | 3
        5 | a:1 | 4 | a / - | -  | a=length | 0
        ",
    );
}

/// S03.
#[test]
fn a_seat_is_taken_in_the_step_after_it_was_left() {
    check(
        "
        usable 40, budget 64, seqs 2
        a: step 0, A[4], 2 out
        b: step 0, B[4], 4 out
        c: step 0, C[4], 2 out
        d: step 0, D[4], 2 out
        --
        0 | a:4 b:4 | 2 | a b / c d | +a +b | a b               | 2
        1 | a:1 b:1 | 4 | a b / c d | -     | a=length b        | 2
        2 | b:1 c:4 | 3 | b c / d   | +c    | b c               | 3
        3 | b:1 c:1 | 4 | b c / d   | -     | b=length c=length | 0
        4 | d:4     | 1 | d / -     | +d    | d                 | 1
        5 | d:1     | 2 | d / -     | -     | d=length          | 0
        ",
    );
}

/// S04.
#[test]
fn a_prefill_that_uses_the_whole_budget_keeps_the_queue_waiting() {
    check(
        "
        usable 40, budget 8, seqs 4
        a: step 0, A[24], 2 out
        b: step 0, B[3], 2 out
        --
        0 | a:8     | 2 | a / b   | +a | -          | 2
        1 | a:8     | 4 | a / b   | -  | -          | 4
        2 | a:8     | 6 | a / b   | -  | a          | 6
        3 | a:1 b:3 | 8 | a b / - | +b | a=length b | 1
        4 | b:1     | 1 | b / -   | -  | b=length   | 0
        ",
    );
}

/// S05.
#[test]
fn the_threshold_limits_chunks_of_running_and_waiting_requests() {
    check(
        "
        usable 40, budget 16, seqs 4, threshold 6
        a: step 0, A[20], 2 out
        b: step 0, B[10], 2 out
        c: step 0, C[3], 2 out
        --
        0 | a:6 b:6 c:3 | 5 | a b c / - | +a +b +c | c          | 5
        1 | a:6 b:4 c:1 | 7 | a b c / - | -        | b c=length | 6
        2 | a:6 b:1     | 8 | a b / -   | -        | b=length   | 5
        3 | a:2         | 5 | a / -     | -        | a          | 5
        4 | a:1         | 6 | a / -     | -        | a=length   | 0
        ",
    );
}

/// S06.
#[test]
fn nobody_overtakes_a_head_that_lacks_memory() {
    check(
        "
        usable 8, budget 64, seqs 4
        a: step 0, A[16], 3 out
        b: step 1, B[20], 1 out
        c: step 1, C[4], 1 out
        --
        0 | a:16     | 4 | a / -   | +a    | a                 | 4
        1 | a:1      | 5 | a / b c | -     | a                 | 5
        2 | a:1      | 5 | a / b c | -     | a=length          | 0
        3 | b:20 c:4 | 6 | b c / - | +b +c | b=length c=length | 0
        ",
    );
}

/// S11.
#[test]
fn urgent_requests_wait_less_and_ties_go_to_arrival_then_id() {
    check(
        "
        usable 40, budget 64, seqs 1, priority
        a: step 0, A[4], 2 out, priority 1, time 0
        b: step 1, B[4], 1 out, priority 0, time 3
        c: step 1, C[4], 1 out, priority 0, time 2
        e: step 1, D[4], 1 out, priority 2, time 1
        d: step 1, E[4], 1 out, priority 2, time 1
        --
        0 | a:4 | 1 | a / -       | +a | a        | 1
        1 | a:1 | 2 | a / c b d e | -  | a=length | 0
        2 | c:4 | 1 | c / b d e   | +c | c=length | 0
        3 | b:4 | 1 | b / d e     | +b | b=length | 0
        4 | d:4 | 1 | d / e       | +d | d=length | 0
        5 | e:4 | 1 | e / -       | +e | e=length | 0
        ",
    );
}

/// S38.
#[test]
fn without_chunking_a_prompt_waits_until_the_budget_takes_it_whole() {
    check(
        "
        usable 40, budget 12, seqs 4, chunking off
        a: step 0, A[6], 2 out
        b: step 0, B[8], 2 out
        c: step 0, C[2], 2 out
        --
        0 | a:6         | 2 | a / b c   | +a    | a                 | 2
        1 | a:1 b:8 c:2 | 5 | a b c / - | +b +c | a=length b c      | 3
        2 | b:1 c:1     | 4 | b c / -   | -     | b=length c=length | 0
        ",
    );
}

/// S39.
#[test]
fn an_abort_frees_a_seat_and_a_place_in_the_queue() {
    check(
        "
        usable 40, budget 64, seqs 2
        a: step 0, A[8], 9 out, abort 2
        b: step 0, B[4], 3 out
        c: step 0, C[4], 2 out, abort 1
        d: step 0, D[4], 2 out
        --
        0 | a:8 b:4 | 3 | a b / c d | +a +b | a b        | 3
        1 | a:1 b:1 | 5 | a b / d   | -     | a b        | 5
        2 | b:1 d:4 | 3 | b d / -   | +d    | b=length d | 1
        3 | d:1     | 2 | d / -     | -     | d=length   | 0
        ",
    );
}

/// S43.
#[test]
fn only_the_next_chunk_is_checked_at_admission() {
    check(
        "
        usable 8, budget 9, seqs 4
        a: step 0, A[12], 9 out
        b: step 1, B[24], 1 out
        --
        0  | a:9     | 3 | a / -   | +a    | -        | 3
        1  | a:3 b:6 | 5 | a b / - | +b    | a        | 5
        2  | a:1 b:8 | 8 | a b / - | -     | a        | 8
        3  | a:1     | 4 | a / b   | !b    | a        | 4
        4  | a:1     | 4 | a / b   | -     | a        | 4
        5  | a:1     | 4 | a / b   | -     | a        | 4
        6  | a:1     | 5 | a / b   | -     | a        | 5
        7  | a:1     | 5 | a / b   | -     | a        | 5
        8  | a:1     | 5 | a / b   | -     | a        | 5
        9  | a:1     | 5 | a / b   | -     | a=length | 0
        10 | b:9     | 6 | b / -   | ~b@12 | -        | 6
        11 | b:3     | 6 | b / -   | -     | b=length | 0
        ",
    );
}

/// An urgent arrival takes neither a seat nor blocks from anybody; it only goes first.
#[test]
fn an_urgent_arrival_preempts_nobody_for_a_seat_or_for_admission() {
    check(
        "
        usable 4, budget 64, seqs 2, priority
        a: step 0, A[8], 4 out, priority 9
        b: step 1, B[8], 1 out, priority 5
        c: step 1, C[12], 1 out, priority 0
        --
        0 | a:8  | 2 | a / -   | +a | a        | 2
        1 | a:1  | 3 | a / c b | -  | a        | 3
        2 | a:1  | 3 | a / c b | -  | a        | 3
        3 | a:1  | 3 | a / c b | -  | a=length | 0
        4 | c:12 | 3 | c / b   | +c | c=length | 0
        5 | b:8  | 2 | b / -   | +b | b=length | 0
        ",
    );
}

/// Running requests come first, in the order of the list; a newcomer gets what is left.
#[test]
fn the_budget_is_shared_in_list_order() {
    check(
        "
        usable 20, budget 8, seqs 4, threshold 6
        a: step 0, A[6]+B[14], 1 out
        b: step 0, C[2], 3 out
        c: step 1, D[4], 1 out
        --
        0 | a:6 b:2     | 3 | a b / -   | +a +b | b                 | 3
        1 | a:6 b:1 c:1 | 5 | a b c / - | +c    | b                 | 5
        2 | a:6 b:1 c:1 | 7 | a b c / - | -     | b=length          | 6
        3 | a:2 c:2     | 6 | a c / -   | -     | a=length c=length | 0
        ",
    );
    check(
        "
        usable 20, budget 5, seqs 4
        a: step 0, A[3], 2 out
        b: step 0, B[6], 1 out
        c: step 0, C[2], 1 out
        --
        0 | a:3 b:2 | 2 | a b / c | +a +b | a                 | 2
        1 | a:1 b:4 | 3 | a b / c | -     | a=length b=length | 0
        2 | c:2     | 1 | c / -   | +c    | c=length          | 0
        ",
    );
}
