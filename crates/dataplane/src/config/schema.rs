//! The form of an `EndpointPickerConfig`, before anything is made of its plugins.

use foretoken_des_kernel::SimDuration;

use super::document::{ConfigError, Fields, Value};

/// Versions that are read: the current one, the deprecated one and the one of newer guides.
const API_VERSIONS: [&str; 3] = [
    "llm-d.ai/v1alpha1",
    "inference.networking.x-k8s.io/v1alpha1",
    "llm-d.ai/v1",
];

/// The file as it is written.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) flow_control: bool,
    pub(super) plugins: Vec<PluginEntry>,
    /// `None` where the file has no such key: then one profile of everything is meant.
    pub(super) profiles: Option<Vec<ProfileEntry>>,
    pub(super) flow: FlowEntry,
    /// Instances that are named where nothing comes of it here.
    pub(super) others: Vec<Reference>,
    /// Remarks on what is accepted and has no effect, or is deprecated.
    pub(super) warnings: Vec<String>,
}

/// An instance of a plugin.
#[derive(Debug)]
pub(super) struct PluginEntry {
    pub(super) name: String,
    pub(super) kind: String,
    /// Where its type is written.
    pub(super) place: Value,
    pub(super) parameters: Value,
}

#[derive(Debug)]
pub(super) struct ProfileEntry {
    pub(super) name: String,
    pub(super) plugins: Vec<ProfilePlugin>,
    pub(super) place: Value,
}

#[derive(Debug)]
pub(super) struct ProfilePlugin {
    pub(super) reference: Reference,
    /// Given only with scorers.
    pub(super) weight: Option<f64>,
}

/// The name of an instance, and where it is written.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) place: Value,
}

impl Reference {
    pub(super) fn read(value: &Value) -> Result<Self, ConfigError> {
        Ok(Self {
            name: value.text()?,
            place: value.clone(),
        })
    }
}

/// The section `flowControl`.
#[derive(Debug)]
pub(super) struct FlowEntry {
    pub(super) max_bytes: Option<u64>,
    pub(super) max_requests: Option<u64>,
    pub(super) request_ttl: Option<SimDuration>,
    pub(super) no_endpoint_ttl: Option<SimDuration>,
    pub(super) default_band: Option<BandEntry>,
    pub(super) default_negative_band: Option<BandEntry>,
    pub(super) bands: Vec<BandEntry>,
    pub(super) usage_limit: Option<Reference>,
    pub(super) saturation_detector: Option<Reference>,
    pub(super) eviction: bool,
}

#[derive(Debug)]
pub(super) struct BandEntry {
    /// Templates have none.
    pub(super) priority: Option<i32>,
    pub(super) max_bytes: Option<u64>,
    pub(super) max_requests: Option<u64>,
    pub(super) fairness: Option<Reference>,
    pub(super) ordering: Option<Reference>,
    pub(super) place: Value,
}

impl Document {
    pub(super) fn read(text: &str) -> Result<Self, ConfigError> {
        let mut root = Value::parse(text)?.fields()?;
        let mut warnings = Vec::new();
        let version = root.need("apiVersion")?;
        if !API_VERSIONS.contains(&version.text()?.as_str()) {
            let allowed = API_VERSIONS.join(", ");
            return Err(version.error(format!("is {}: allowed are {allowed}", version.text()?)));
        }
        let kind = root.need("kind")?;
        if kind.text()? != "EndpointPickerConfig" {
            return Err(kind.error(format!(
                "is {}: allowed is EndpointPickerConfig",
                kind.text()?
            )));
        }
        let flow_control = feature_gates(root.take("featureGates"))?;
        let plugins = list(root.take("plugins"), plugin)?;
        let profiles = root
            .take("schedulingProfiles")
            .map(|profiles| list(Some(profiles), profile))
            .transpose()?;
        let mut flow = flow(root.section("flowControl")?)?;
        if let Some(detector) = root.take("saturationDetector") {
            let line = detector.line();
            let old = reference(detector)?;
            warnings.push(format!(
                "line {line}: saturationDetector is deprecated here: it belongs into flowControl"
            ));
            flow.saturation_detector.get_or_insert(old);
        }
        let mut others = data_layer(root.section("dataLayer")?)?;
        others.extend(request_handler(root.section("requestHandler")?)?);
        if let Some(parser) = root.take("parser") {
            let line = parser.line();
            others.push(reference(parser)?);
            warnings.push(format!(
                "line {line}: parser is deprecated here: it belongs into requestHandler.parsers"
            ));
        }
        root.ignore("metadata");
        root.finish()?;
        Ok(Self {
            flow_control,
            plugins,
            profiles,
            flow,
            others,
            warnings,
        })
    }
}

fn list<T>(
    value: Option<Value>,
    read: impl FnMut(Value) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    let items = value.map_or(Ok(Vec::new()), Value::items)?;
    items.into_iter().map(read).collect()
}

/// Whether `flowControl` is on: off unless named, last word counts.
fn feature_gates(value: Option<Value>) -> Result<bool, ConfigError> {
    let mut flow_control = false;
    for gate in value.map_or(Ok(Vec::new()), Value::items)? {
        let text = gate.text()?;
        let (name, on) = match text.split_once('=') {
            None => (text.as_str(), true),
            Some((name, "true")) => (name, true),
            Some((name, "false")) => (name, false),
            Some(_) => {
                return Err(
                    gate.error(format!("is {text}: expected name, name=true or name=false"))
                );
            }
        };
        match name {
            "flowControl" => flow_control = on,
            "haPopulateNonLeaderDatastore" => {}
            _ => {
                let allowed = "flowControl, haPopulateNonLeaderDatastore";
                return Err(gate.error(format!(
                    "unknown feature gate {name}: allowed are {allowed}"
                )));
            }
        }
    }
    Ok(flow_control)
}

fn plugin(value: Value) -> Result<PluginEntry, ConfigError> {
    let mut fields = value.fields()?;
    let place = fields.need("type")?;
    let kind = place.text()?;
    let name = fields.or("name", kind.clone(), Value::text)?;
    let parameters = fields.take("parameters").unwrap_or_else(|| fields.here());
    fields.finish()?;
    Ok(PluginEntry {
        name,
        kind,
        place,
        parameters,
    })
}

fn profile(value: Value) -> Result<ProfileEntry, ConfigError> {
    let mut fields = value.fields()?;
    let place = fields.need("name")?;
    let name = place.text()?;
    let plugins = list(fields.take("plugins"), |value| {
        let mut fields = value.fields()?;
        let reference = Reference::read(&fields.need("pluginRef")?)?;
        let weight = fields.maybe("weight", Value::f64)?;
        fields.finish()?;
        Ok(ProfilePlugin { reference, weight })
    })?;
    fields.finish()?;
    Ok(ProfileEntry {
        name,
        plugins,
        place,
    })
}

/// `{pluginRef: name}`.
fn reference(value: Value) -> Result<Reference, ConfigError> {
    let mut fields = value.fields()?;
    let reference = Reference::read(&fields.need("pluginRef")?)?;
    fields.finish()?;
    Ok(reference)
}

fn flow(mut fields: Fields) -> Result<FlowEntry, ConfigError> {
    let entry = FlowEntry {
        max_bytes: fields.maybe("maxBytes", Value::quantity)?,
        max_requests: fields.maybe("maxRequests", Value::quantity)?,
        request_ttl: fields.maybe("defaultRequestTTL", Value::duration)?,
        no_endpoint_ttl: fields.maybe("noEndpointRequestTTL", Value::duration)?,
        default_band: fields.take("defaultPriorityBand").map(band).transpose()?,
        default_negative_band: fields
            .take("defaultNegativePriorityBand")
            .map(band)
            .transpose()?,
        bands: list(fields.take("priorityBands"), band)?,
        usage_limit: fields.maybe("usageLimitPolicyPluginRef", Reference::read)?,
        saturation_detector: fields
            .take("saturationDetector")
            .map(reference)
            .transpose()?,
        eviction: fields.or("enableEviction", false, Value::bool)?,
    };
    fields.finish()?;
    Ok(entry)
}

/// A band, or the template of one.
fn band(value: Value) -> Result<BandEntry, ConfigError> {
    let mut fields = value.fields()?;
    let entry = BandEntry {
        priority: fields.maybe("priority", |value| {
            let number = value.i64()?;
            i32::try_from(number).map_err(|_| value.error(format!("is {number}: beyond 32 bits")))
        })?,
        max_bytes: fields.maybe("maxBytes", Value::quantity)?,
        max_requests: fields.maybe("maxRequests", Value::quantity)?,
        fairness: fields.maybe("fairnessPolicyRef", Reference::read)?,
        ordering: fields.maybe("orderingPolicyRef", Reference::read)?,
        place: fields.here(),
    };
    fields.finish()?;
    Ok(entry)
}

/// Where data come from: a simulation has its own sources, so only the form and the names are checked.
fn data_layer(mut fields: Fields) -> Result<Vec<Reference>, ConfigError> {
    let mut named = Vec::new();
    fields.maybe("injectDefaults", Value::bool)?;
    list(fields.take("sources"), |source| {
        let mut fields = source.fields()?;
        named.push(Reference::read(&fields.need("pluginRef")?)?);
        named.extend(list(fields.take("extractors"), reference)?);
        fields.finish()
    })?;
    for key in ["discovery", "peerDiscovery"] {
        named.extend(fields.take(key).map(reference).transpose()?);
    }
    named.extend(fields.maybe("crossReplicaSyncerPluginRef", Reference::read)?);
    fields.maybe("crossReplicaSyncInterval", Value::duration)?;
    fields.finish()?;
    Ok(named)
}

fn request_handler(mut fields: Fields) -> Result<Vec<Reference>, ConfigError> {
    let parsers = list(fields.take("parsers"), reference)?;
    fields.finish()?;
    Ok(parsers)
}

impl FlowEntry {
    /// Whether it says anything that needs flow control.
    pub(super) const fn says_more_than_detector(&self) -> bool {
        self.max_bytes.is_some()
            || self.max_requests.is_some()
            || self.request_ttl.is_some()
            || self.no_endpoint_ttl.is_some()
            || self.default_band.is_some()
            || self.default_negative_band.is_some()
            || !self.bands.is_empty()
            || self.usage_limit.is_some()
            || self.eviction
    }
}
