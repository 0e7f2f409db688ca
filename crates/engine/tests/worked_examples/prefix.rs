//! What the prefix cache finds, keeps and forgets.

use crate::table::check;

/// S14.
#[test]
fn a_cached_prompt_recomputes_its_last_block() {
    check(
        "
        usable 40, budget 64, seqs 4
        a: step 0, A[12], 2 out
        b: step 3, A[12], 1 out
        c: step 5, A[13], 1 out
        d: step 7, A[10], 1 out
        --
        0 | a:12 | 3 | a / - | +a    | a        | 3
        1 | a:1  | 4 | a / - | -     | a=length | 0
        3 | b:4  | 3 | b / - | +b@8  | b=length | 0
        5 | c:1  | 4 | c / - | +c@12 | c=length | 0
        7 | d:2  | 3 | d / - | +d@8  | d=length | 0
        ",
    );
}

/// S15.
#[test]
fn a_request_shares_blocks_planned_in_the_same_step() {
    check(
        "
        usable 40, budget 64, seqs 4
        a: step 0, A[8]+B[3], 2 out
        b: step 0, A[8]+C[3], 2 out
        --
        0 | a:11 b:3 | 4 | a b / - | +a +b@8 | a b               | 4
        1 | a:1 b:1  | 4 | a b / - | -       | a=length b=length | 0
        ",
    );
}

/// S16.
#[test]
fn only_planned_chunks_can_be_shared() {
    check(
        "
        usable 40, budget 10, seqs 4, threshold 6
        a: step 0, A[16], 1 out
        b: step 0, A[16], 1 out
        --
        0 | a:6 b:4 | 3 | a b / - | +a +b@4 | -                 | 3
        1 | a:6 b:4 | 5 | a b / - | -       | -                 | 5
        2 | a:4 b:4 | 7 | a b / - | -       | a=length b=length | 0
        ",
    );
}

/// S17.
#[test]
fn the_oldest_release_is_evicted_first_and_tails_before_heads() {
    check(
        "
        usable 8, budget 64, seqs 4
        a: step 0, A[12], 1 out
        b: step 2, B[12], 1 out
        c: step 4, C[16], 1 out
        d: step 6, A[13], 1 out
        e: step 8, B[13], 1 out
        --
        0 | a:12 | 3 | a / - | +a   | a=length | 0
        2 | b:12 | 3 | b / - | +b   | b=length | 0
        4 | c:16 | 4 | c / - | +c   | c=length | 0
        6 | d:9  | 4 | d / - | +d@4 | d=length | 0
        8 | e:13 | 4 | e / - | +e   | e=length | 0
        ",
    );
}

/// S18.
#[test]
fn shared_blocks_count_once_and_live_as_long_as_their_last_holder() {
    check(
        "
        usable 11, budget 64, seqs 4
        a: step 0, A[16]+B[2], 2 out
        b: step 1, A[16]+C[2], 5 out
        --
        0 | a:18    | 5 | a / -   | +a    | a          | 5
        1 | a:1 b:2 | 6 | a b / - | +b@16 | a=length b | 5
        2 | b:1     | 5 | b / -   | -     | b          | 5
        3 | b:1     | 5 | b / -   | -     | b          | 5
        4 | b:1     | 6 | b / -   | -     | b          | 6
        5 | b:1     | 6 | b / -   | -     | b=length   | 0
        ",
    );
}

/// S19.
#[test]
fn a_follow_up_finds_the_answer_before_it() {
    check(
        "
        usable 40, budget 64, seqs 4
        a: step 0, A[6], 7 out
        b: step 9, A[6]+out(a)[7]+B[3], 1 out
        --
        0 | a:6 | 2 | a / - | +a    | a        | 2
        1 | a:1 | 2 | a / - | -     | a        | 2
        2 | a:1 | 2 | a / - | -     | a        | 2
        3 | a:1 | 3 | a / - | -     | a        | 3
        4 | a:1 | 3 | a / - | -     | a        | 3
        5 | a:1 | 3 | a / - | -     | a        | 3
        6 | a:1 | 3 | a / - | -     | a=length | 0
        9 | b:4 | 4 | b / - | +b@12 | b=length | 0
        ",
    );
}

/// S20.
#[test]
fn a_salt_separates_equal_prompts() {
    check(
        "
        usable 40, budget 64, seqs 4
        a: step 0, A[9], 1 out, salt 7
        b: step 2, A[9], 1 out, salt 7
        c: step 4, A[9], 1 out
        --
        0 | a:9 | 3 | a / - | +a   | a=length | 0
        2 | b:1 | 3 | b / - | +b@8 | b=length | 0
        4 | c:9 | 3 | c / - | +c   | c=length | 0
        ",
    );
}

/// S41.
#[test]
fn a_recomputed_block_is_a_second_copy() {
    check(
        "
        usable 20, budget 64, seqs 4
        a: step 0, A[8], 1 out
        b: step 0, A[8], 1 out
        c: step 2, A[9], 1 out
        --
        0 | a:8 b:4 | 3 | a b / - | +a +b@4 | a=length b=length | 0
        2 | c:1     | 3 | c / -   | +c@8    | c=length          | 0
        ",
    );
}

/// S44.
#[test]
fn a_full_pool_is_reused_from_the_tail() {
    check(
        "
        usable 4, budget 64, seqs 4
        a: step 0, A[16], 1 out
        b: step 2, B[5], 1 out
        c: step 4, A[16], 1 out
        --
        0 | a:16 | 4 | a / - | +a   | a=length | 0
        2 | b:5  | 2 | b / - | +b   | b=length | 0
        4 | c:8  | 4 | c / - | +c@8 | c=length | 0
        ",
    );
}

/// The block that the last computed token completes is found later, in both loops; the last sampled
/// token is never computed, so a block that only it would complete is not.
#[test]
fn the_last_computed_token_completes_a_block_in_both_loops() {
    check(
        "
        usable 40, budget 64, seqs 4
        a: step 0, A[5], 4 out
        b: step 9, A[5]+out(a)[3]+B[1], 1 out
        c: step 9, A[5]+out(a)[4]+B[1], 1 out
        --
        0 | a:5     | 2 | a / -   | +a       | a        | 2
        1 | a:1     | 2 | a / -   | -        | a        | 2
        2 | a:1     | 2 | a / -   | -        | a        | 2
        3 | a:1     | 2 | a / -   | -        | a=length | 0
        9 | b:1 c:2 | 4 | b c / - | +b@8 +c@8 | b=length c=length | 0
        ",
    );
    check(
        "
        usable 40, budget 64, seqs 4, asynchronous
        a: step 0, A[5], 4 out
        b: step 9, A[5]+out(a)[3]+B[1], 1 out
        c: step 9, A[5]+out(a)[4]+B[1], 1 out
        --
        0  | a:5     | 2 | a / -   | +a        | - (-)                 | 2
        1  | a:1     | 2 | a / -   | -         | a (0)                 | 2
        2  | a:1     | 2 | a / -   | -         | a (1)                 | 2
        3  | a:1     | 2 | a / -   | -         | a (2)                 | 2
        4  | -       | 2 | a / -   | -         | a=length (3)          | 0
        9  | b:1 c:2 | 4 | b c / - | +b@8 +c@8 | - (8)                 | 4
        10 | -       | 4 | b c / - | -         | b=length c=length (9) | 0
        ",
    );
}

/// A hit moves a free block to the end of the queue when it is released again.
#[test]
fn a_hit_renews_a_block() {
    check(
        "
        usable 6, budget 64, seqs 4
        a: step 0, A[8], 1 out
        b: step 1, B[8], 1 out
        c: step 2, A[9], 1 out
        d: step 3, D[12], 1 out
        e: step 4, A[9], 1 out
        f: step 5, B[9], 1 out
        --
        0 | a:8  | 2 | a / - | +a   | a=length | 0
        1 | b:8  | 2 | b / - | +b   | b=length | 0
        2 | c:1  | 3 | c / - | +c@8 | c=length | 0
        3 | d:12 | 3 | d / - | +d   | d=length | 0
        4 | e:1  | 3 | e / - | +e@8 | e=length | 0
        5 | f:9  | 3 | f / - | +f   | f=length | 0
        ",
    );
}

/// Asynchronously a block is found only once its tokens are known: b comes in the very step that
/// computes the token which completes it.
#[test]
fn asynchronously_a_block_waits_for_its_last_token_to_be_known() {
    check(
        "
        usable 40, budget 64, seqs 4, asynchronous
        a: step 0, A[3], 2 out
        b: step 1, A[3]+out(a)[1]+B[1], 1 out
        --
        0 | a:3     | 1 | a / -   | +a | - (-)                 | 1
        1 | a:1 b:5 | 3 | a b / - | +b | a (0)                 | 3
        2 | -       | 3 | a b / - | -  | a=length b=length (1) | 0
        ",
    );
}
