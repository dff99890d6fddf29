//! The metrics with request labels: their names, and their labels in order.

/// Metric of APISIX whose labels describe requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Metric `http_status`: number of requests.
    Status,
    /// Metric `http_latency`: durations in milliseconds.
    Latency,
    /// Metric `bandwidth`: number of bytes.
    Bandwidth,
}

impl Family {
    pub const COUNT: usize = 3;
    pub const ALL: [Family; Family::COUNT] = [Family::Status, Family::Latency, Family::Bandwidth];

    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the name of the metric without the configured prefix.
    pub fn name(self) -> &'static str {
        match self {
            Family::Status => "http_status",
            Family::Latency => "http_latency",
            Family::Bandwidth => "bandwidth",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Returns the help text of the metric, as in APISIX.
    pub(super) fn help(self) -> &'static str {
        match self {
            Family::Status => "HTTP status codes per service in APISIX",
            Family::Latency => "HTTP request latency in milliseconds per service in APISIX",
            Family::Bandwidth => "Total bandwidth in bytes consumed per service in APISIX",
        }
    }

    /// Returns the type of the metric: `counter` or `histogram`.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Family::Status | Family::Bandwidth => "counter",
            Family::Latency => "histogram",
        }
    }

    /// Returns the labels of the metric in their order, after its first label (`code` or `type`).
    pub fn labels(self) -> &'static [LabelName] {
        use LabelName::{
            Consumer, LlmModel, MatchedHost, MatchedUri, Node, RequestLlmModel, RequestType,
            ResponseSource, Route, Service,
        };
        match self {
            Family::Status => &[
                Route,
                MatchedUri,
                MatchedHost,
                Service,
                Consumer,
                Node,
                RequestType,
                RequestLlmModel,
                LlmModel,
                ResponseSource,
            ],
            Family::Latency | Family::Bandwidth => {
                &[Route, Service, Consumer, Node, RequestType, RequestLlmModel, LlmModel]
            }
        }
    }
}

macro_rules! label_names {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// A label that every request has a value for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum LabelName {
            $($(#[$doc])* $variant,)*
        }

        impl LabelName {
            pub const ALL: &'static [LabelName] = &[$(LabelName::$variant),*];

            /// Returns the name of the label on the page.
            pub fn text(self) -> &'static str {
                match self {
                    $(LabelName::$variant => $text,)*
                }
            }
        }
    };
}

label_names! {
    /// Id or name of the route.
    Route = "route",
    /// Path pattern that the request matched.
    MatchedUri = "matched_uri",
    /// Host pattern that the request matched.
    MatchedHost = "matched_host",
    /// Id or name of the service.
    Service = "service",
    Consumer = "consumer",
    /// Address of the last node tried.
    Node = "node",
    /// Kind of request; always `traditional_http`, because only requests to language models differ.
    RequestType = "request_type",
    /// Language model that was requested; always empty.
    RequestLlmModel = "request_llm_model",
    /// Language model that answered; always empty.
    LlmModel = "llm_model",
    /// Origin of the response: gateway, or node.
    ResponseSource = "response_source",
}

impl LabelName {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|label| label.text() == name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LabelSet(u16);

impl LabelSet {
    #[must_use]
    pub fn with(self, label: LabelName) -> Self {
        Self(self.0 | 1 << label as u16)
    }

    #[inline]
    pub fn has(self, label: LabelName) -> bool {
        self.0 & (1 << label as u16) != 0
    }

    pub(super) fn bits(self) -> u16 {
        self.0
    }
}

/// Labels left empty in each metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hidden {
    sets: [LabelSet; Family::COUNT],
    everywhere: LabelSet,
}

impl Hidden {
    /// Hides these labels of each metric, in the order of [`Family::ALL`].
    pub fn new(sets: [LabelSet; Family::COUNT]) -> Self {
        let shown = |label: LabelName, family: Family| {
            family.labels().contains(&label) && !sets[family.index()].has(label)
        };
        let mut everywhere = LabelSet::default();
        for label in LabelName::ALL {
            if !Family::ALL.into_iter().any(|family| shown(*label, family)) {
                everywhere = everywhere.with(*label);
            }
        }
        Self { sets, everywhere }
    }

    pub(super) fn hidden_in(&self, family: Family) -> LabelSet {
        self.sets[family.index()]
    }

    /// Returns the labels that are hidden in every metric, so that they do not distinguish
    /// requests.
    #[inline]
    pub(super) fn everywhere(&self) -> LabelSet {
        self.everywhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_hidden_everywhere_once_no_metric_shows_it() {
        let node = LabelSet::default().with(LabelName::Node);
        let some = Hidden::new([node.with(LabelName::MatchedUri), node, LabelSet::default()]);
        assert!(some.everywhere().has(LabelName::MatchedUri), "only http_status has it");
        assert!(!some.everywhere().has(LabelName::Node), "bandwidth shows it still");
        assert!(Hidden::new([node; 3]).everywhere().has(LabelName::Node));
        assert_eq!(Hidden::new(Default::default()), Hidden::default());
    }

    #[test]
    fn names_are_found_again() {
        for label in LabelName::ALL {
            assert_eq!(LabelName::named(label.text()), Some(*label));
        }
        for family in Family::ALL {
            assert_eq!(Family::named(family.name()), Some(family));
            assert_eq!(Family::ALL[family.index()], family);
        }
        assert_eq!(LabelName::named("code"), None, "it defines the metric and cannot be hidden");
    }
}
