//! Each trait can be boxed and moved to another thread.

use foretoken_workload::{ArrivalProcess, LengthDistribution, QueueOrder, Workload};

fn movable<T: Send + ?Sized>() {}

#[test]
fn every_trait_is_object_safe_and_movable() {
    movable::<dyn ArrivalProcess>();
    movable::<dyn LengthDistribution>();
    movable::<dyn QueueOrder>();
    movable::<dyn Workload>();
}
