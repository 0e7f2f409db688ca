//! What the blocks of requests that come and go cost. Each element is a block that is taken, filled and
//! given back.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foretoken_engine::kv::{BlockTable, KvCache};
use foretoken_workload::BlockHash;

const BLOCK_SIZE: u32 = 16;
/// Tokens of a request when its prompt is computed, and at its end.
const PROMPT: u32 = 512;
const ALL: u32 = 768;

/// One request behind the other, each with content of its own, the last ones cached. Of their blocks
/// the first `findable` have keys.
struct Load {
    cache: KvCache,
    chain: Vec<BlockHash>,
    findable: usize,
    made: u64,
}

impl Load {
    fn new(findable: usize) -> Self {
        let mut load = Self {
            cache: KvCache::new(30_000, BLOCK_SIZE, true, true),
            chain: Vec::new(),
            findable,
            made: 0,
        };
        // From then on blocks are taken that have been used before.
        for _ in 0..1_000 {
            load.serve();
        }
        load
    }

    fn serve(&mut self) {
        let mut table = BlockTable::default();
        self.chain.clear();
        for _ in 0..self.findable {
            self.made += 1;
            self.chain.push(BlockHash::root(self.made));
        }
        let mut known = PROMPT;
        while known <= ALL {
            assert!(self.cache.allocate(&mut table, &[], known));
            if self.cache.has_unregistered(&table, known) {
                self.cache.register(&mut table, &self.chain, known);
            }
            known += BLOCK_SIZE;
        }
        self.cache.release(&mut table);
    }
}

fn blocks(criterion: &mut Criterion) {
    let blocks = ALL / BLOCK_SIZE;
    let mut group = criterion.benchmark_group("blocks");
    group.throughput(Throughput::Elements(blocks.into()));
    for (name, findable) in [("nobody repeats", 0), ("findable", blocks)] {
        let mut load = Load::new(findable as usize);
        group.bench_function(name, |bencher| bencher.iter(|| load.serve()));
    }
    group.finish();
}

criterion_group!(benches, blocks);
criterion_main!(benches);
