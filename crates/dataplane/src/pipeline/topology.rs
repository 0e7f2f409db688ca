//! How close two endpoints are, by the labels that say where they are.

use std::sync::Arc;

use crate::view::EndpointView;

/// The smallest unit that two endpoints share; a closer one is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proximity {
    /// The same region.
    Region,
    /// The same availability zone.
    Zone,
    /// The same rack.
    Rack,
    /// The same host.
    Host,
}

/// Names of the labels that say where an endpoint is. Kubernetes has these labels on nodes; a simulated
/// endpoint carries them itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyLabels {
    /// Its host; `kubernetes.io/hostname` by default.
    pub host: Arc<str>,
    /// Its rack; `topology.kubernetes.io/rack` by default.
    pub rack: Arc<str>,
    /// Its zone; `topology.kubernetes.io/zone` by default.
    pub zone: Arc<str>,
    /// Its region; `topology.kubernetes.io/region` by default.
    pub region: Arc<str>,
}

impl TopologyLabels {
    /// The closest unit of which both endpoints have a label, the same one; `None` if there is none.
    pub fn proximity(&self, a: &EndpointView, b: &EndpointView) -> Option<Proximity> {
        [
            (&self.host, Proximity::Host),
            (&self.rack, Proximity::Rack),
            (&self.zone, Proximity::Zone),
            (&self.region, Proximity::Region),
        ]
        .into_iter()
        .find(|(label, _)| a.label(label).is_some() && a.label(label) == b.label(label))
        .map(|(_, proximity)| proximity)
    }
}

impl Default for TopologyLabels {
    fn default() -> Self {
        Self {
            host: "kubernetes.io/hostname".into(),
            rack: "topology.kubernetes.io/rack".into(),
            zone: "topology.kubernetes.io/zone".into(),
            region: "topology.kubernetes.io/region".into(),
        }
    }
}
