//! W01 to W14: what scorers give.

use std::sync::Arc;

use foretoken_dataplane::pipeline::ContextLengthAware;
use foretoken_dataplane::pipeline::filters::SessionAffinityFilter;
use foretoken_dataplane::pipeline::scorers::{
    ActiveRequestScorer, HeadroomSelection, KvCacheUtilizationScorer, LatencyScorer,
    LoadAwareScorer, LoraAffinityScorer, NoHitLruScorer, PrefixCacheScorer, QueueScorer,
    RunningRequestsScorer, SessionAffinityScorer, TokenLoadScorer,
};
use foretoken_dataplane::{Adapters, EndpointId, Scorer};

use super::support::{Outcome, Scene, close, equal};

worked_examples! {
    "W01" w01 "queue-scorer";
    "W02" w02 "kv-cache-utilization-scorer";
    "W03" w03 "running-requests-size-scorer";
    "W04" w04 "load-aware-scorer";
    "W05" w05 "active-request-scorer";
    "W06" w06 "token-load-scorer";
    "W07" w07 "prefix-cache-scorer";
    "W08" w08 "prefix-cache-scorer with a length bonus";
    "W09" w09 "lora-affinity-scorer";
    "W10" w10 "no-hit-lru-scorer";
    "W11" w11 "context-length-aware";
    "W12" w12 "latency-scorer";
    "W13" w13 "latency-scorer without predictions";
    "W14" w14 "session affinity";
}

fn w01() -> Outcome {
    let scores = |queued: &[u32]| {
        let endpoints = u8::try_from(queued.len()).unwrap_or(0);
        Scene::of(endpoints).queued(queued).scores(&mut QueueScorer)
    };
    close("spread", &scores(&[10, 5, 0]), &[0.0, 0.5, 1.0])?;
    close(
        "unordered",
        &scores(&[7, 1, 3]),
        &[0.0, 1.0, 0.666_666_666_667],
    )?;
    close("equal", &scores(&[9, 9]), &[1.0, 1.0])?;
    close("alone", &scores(&[900]), &[1.0])
}

fn w02() -> Outcome {
    let mut scene = Scene::of(3).kv(&[0.8, 0.5, 0.0]);
    let scores = scene.scores(&mut KvCacheUtilizationScorer);
    close("scores", &scores, &[0.2, 0.5, 1.0])
}

fn w03() -> Outcome {
    let mut scene = Scene::of(3).running(&[8, 2, 4]);
    let scores = scene.scores(&mut RunningRequestsScorer);
    close("scores", &scores, &[0.0, 1.0, 0.666_666_666_667])
}

fn w04() -> Outcome {
    let mut ten = LoadAwareScorer { threshold: 10 };
    let scores = Scene::of(3).queued(&[2, 0, 15]).scores(&mut ten);
    close("threshold 10", &scores, &[0.4, 0.5, 0.0])?;
    let mut default = LoadAwareScorer::default();
    let scores = Scene::of(3).queued(&[32, 1, 128]).scores(&mut default);
    close("default", &scores, &[0.375, 0.496_093_75, 0.0])
}

fn w05() -> Outcome {
    let scores = |idle_threshold, max_busy_score, active: [Option<u64>; 3]| {
        let mut scorer = ActiveRequestScorer {
            idle_threshold,
            max_busy_score,
            ..ActiveRequestScorer::default()
        };
        Scene::of(3).active(&active).scores(&mut scorer)
    };
    let given = |active: [u64; 3]| active.map(Some);
    close("(i)", &scores(0, 1.0, given([3, 0, 6])), &[0.5, 1.0, 0.0])?;
    let one_missing = [Some(4), None, Some(1)];
    close("(ii)", &scores(0, 1.0, one_missing), &[0.0, 1.0, 0.75])?;
    close("(iii)", &scores(1, 0.5, given([1, 2, 0])), &[1.0, 0.0, 1.0])?;
    close(
        "(iv)",
        &scores(2, 0.5, given([2, 5, 8])),
        &[1.0, 0.1875, 0.0],
    )?;
    let mut two = Scene::of(2).active(&[Some(3), Some(11)]);
    let scores = two.scores(&mut ActiveRequestScorer::default());
    close("(v)", &scores, &[0.727_272_727_273, 0.0])
}

fn w06() -> Outcome {
    let tokens = [Some((200, 300)), Some((0, 100)), Some((1500, 0)), None];
    let mut small = TokenLoadScorer {
        queue_threshold_tokens: 1000,
        ..TokenLoadScorer::default()
    };
    let scores = Scene::of(4).tokens(&tokens).scores(&mut small);
    close("threshold 1000", &scores, &[0.5, 0.9, 0.0, 1.0])?;
    let mut lone = Scene::of(1).tokens(&[Some((1_048_576, 0))]);
    close(
        "default",
        &lone.scores(&mut TokenLoadScorer::default()),
        &[0.75],
    )
}

fn w07() -> Outcome {
    let matches = [Some((5, 10, 64)), Some((2, 10, 64)), None, Some((0, 0, 64))];
    let scores = Scene::of(4)
        .prefix(&matches)
        .scores(&mut PrefixCacheScorer::default());
    close("scores", &scores, &[0.5, 0.2, 0.0, 0.0])
}

fn w08() -> Outcome {
    let mut scorer = PrefixCacheScorer {
        match_length_weight: 0.5,
        match_length_scale_tokens: 100,
        ..PrefixCacheScorer::default()
    };
    let mut scene = Scene::of(2).prefix(&[Some((5, 10, 1)), Some((50, 100, 1))]);
    close("(i)", &scene.scores(&mut scorer), &[0.25125, 0.375])?;
    let mut scorer = PrefixCacheScorer {
        match_length_weight: 0.25,
        ..PrefixCacheScorer::default()
    };
    let mut scene = Scene::of(2).prefix(&[Some((32, 128, 64)), Some((128, 128, 64))]);
    close("(ii)", &scene.scores(&mut scorer), &[0.203_125, 1.0])
}

fn w09() -> Outcome {
    let names = |names: &str| names.split_whitespace().map(Arc::from).collect();
    let adapters = |running: &str, waiting: &str, max| {
        Arc::new(Adapters {
            running: names(running),
            waiting: names(waiting),
            max,
        })
    };
    let mut scene = Scene::of(6);
    scene.request.model = Some("A".into());
    let reported = [
        adapters("A", "", 2),
        adapters("B", "A", 5),
        adapters("B", "", 2),
        adapters("C", "A", 2),
        adapters("D E", "", 2),
        adapters("", "", 0),
    ];
    for (endpoint, adapters) in scene.endpoints.iter_mut().zip(reported) {
        endpoint.adapters = adapters;
    }
    let scores = scene.scores(&mut LoraAffinityScorer);
    close("scores", &scores, &[1.0, 0.8, 0.8, 0.6, 0.0, 0.0])
}

fn w10() -> Outcome {
    let (mut scorer, mut scene) = (NoHitLruScorer::default(), Scene::of(3));
    let steps: [(&str, &[u32], [f64; 3]); 4] = [
        ("nothing recorded", &[], [1.0, 0.5, 0.0]),
        ("after a", &[0], [0.0, 1.0, 0.5]),
        ("after b and c", &[1, 2], [1.0, 0.5, 0.0]),
        ("after a again", &[0], [0.0, 1.0, 0.5]),
    ];
    for (what, used, expected) in steps {
        for &endpoint in used {
            let placement = EndpointId::new(endpoint).into();
            let request = scene.request.clone();
            scorer.placed(&request.view(), &placement, &scene.context());
        }
        close(what, &scene.scores(&mut scorer), &expected)?;
    }
    Ok(())
}

fn w11() -> Outcome {
    let label = "llm-d.ai/context-length-range";
    let mut plugin = ContextLengthAware::default();
    let ranges = ["0-2048", "2048-8192", "0-32768"].map(Some);
    let ranges = [&ranges[..], &[None, Some("bad")]].concat();
    let scores = Scene::of(5)
        .label(label, &ranges)
        .prompt(1000)
        .scores(&mut plugin);
    let expected = [
        0.814_167_444_805,
        0.146_484_375,
        0.618_162_950_943,
        0.5,
        0.0,
    ];
    close("1000 tokens", &scores, &expected)?;
    let scores = Scene::of(2)
        .label(label, &["2048-8192", "0-2048"].map(Some))
        .prompt(10192)
        .scores(&mut plugin);
    close("10192 tokens", &scores, &[0.1, 0.032_808_398_950])
}

fn w12() -> Outcome {
    let (a, b, d) = ((100.0, 10.0), (300.0, 30.0), (200.0, 10.0));
    let mut scene = Scene::of(4).headroom(&[a, b, (-50.0, 5.0), d].map(Some));
    let mut least = LatencyScorer::new(HeadroomSelection::Least);
    close("least", &scene.scores(&mut least), &[1.01, 0.01, 0.0, 0.61])?;
    let mut scene = Scene::of(3).headroom(&[a, b, d].map(Some));
    let mut most = LatencyScorer::new(HeadroomSelection::Most);
    close("most", &scene.scores(&mut most), &[0.01, 1.01, 0.41])
}

fn w13() -> Outcome {
    let scores = Scene::of(2)
        .queued(&[4, 0])
        .kv(&[0.5, 0.2])
        .prefix(&[Some((5, 10, 64)), Some((0, 10, 64))])
        .scores(&mut LatencyScorer::default());
    close("scores", &scores, &[0.33, 0.60])
}

fn w14() -> Outcome {
    // The base64 of `ns/b`.
    let (header, token) = ("x-session-token", "bnMvYg==");
    let mut without_b = Scene::of(3).header(header, token);
    without_b.endpoints.remove(1);
    let scenes = [
        (
            "bound to b",
            Scene::of(3).header(header, token),
            &[0.0, 1.0, 0.0][..],
            "b",
        ),
        ("b is gone", without_b, &[0.0, 0.0], "ab"),
        ("no header", Scene::of(3), &[0.0, 0.0, 0.0], "abc"),
    ];
    for (what, mut scene, scores, kept) in scenes {
        close(
            what,
            &scene.scores(&mut SessionAffinityScorer::default()),
            scores,
        )?;
        equal(
            what,
            scene.kept(&mut SessionAffinityFilter::default()),
            kept,
        )?;
    }
    Ok(())
}
