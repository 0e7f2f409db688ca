//! stub
use crate::{deployment::Resolved, error::Error, simulation::Simulation};
use foretoken_des_kernel::RngStreams;
/// stub
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct GatewaySpec {}
impl GatewaySpec {
    pub(crate) fn apply(
        &self,
        simulation: Simulation,
        _: &[Resolved],
        _: &RngStreams,
    ) -> Result<Simulation, Error> {
        Ok(simulation)
    }
}
