//! The metrics that have labels of requests: their names, and which labels they have in which order.

/// A metric with labels of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `http_status`: requests.
    Status,
    /// `http_latency`: milliseconds.
    Latency,
    /// `bandwidth`: bytes.
    Bandwidth,
}

impl Family {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// All of them.
    pub const ALL: [Family; Family::COUNT] = [Family::Status, Family::Latency, Family::Bandwidth];

    /// Its place in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name without the prefix.
    pub fn name(self) -> &'static str {
        match self {
            Family::Status => "http_status",
            Family::Latency => "http_latency",
            Family::Bandwidth => "bandwidth",
        }
    }

    /// The metric of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// What it counts, in APISIX's words.
    pub(super) fn help(self) -> &'static str {
        match self {
            Family::Status => "HTTP status codes per service in APISIX",
            Family::Latency => "HTTP request latency in milliseconds per service in APISIX",
            Family::Bandwidth => "Total bandwidth in bytes consumed per service in APISIX",
        }
    }

    /// `counter` or `histogram`.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Family::Status | Family::Bandwidth => "counter",
            Family::Latency => "histogram",
        }
    }

    /// Its labels after `code` or `type`, in their order.
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
            /// All of them.
            pub const ALL: &'static [LabelName] = &[$(LabelName::$variant),*];

            /// Its name on the page.
            pub fn text(self) -> &'static str {
                match self {
                    $(LabelName::$variant => $text,)*
                }
            }
        }
    };
}

label_names! {
    /// The route's id, or name.
    Route = "route",
    /// The path pattern that matched.
    MatchedUri = "matched_uri",
    /// The host pattern that matched.
    MatchedHost = "matched_host",
    /// The service's id, or name.
    Service = "service",
    /// Who asked.
    Consumer = "consumer",
    /// The last node tried: its address.
    Node = "node",
    /// What kind of request it was; `traditional_http` for all that are not for a language model.
    RequestType = "request_type",
    /// The language model asked for.
    RequestLlmModel = "request_llm_model",
    /// The language model that answered.
    LlmModel = "llm_model",
    /// Who answered.
    ResponseSource = "response_source",
}

impl LabelName {
    /// The label of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|label| label.text() == name)
    }
}

/// A set of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LabelSet(u16);

impl LabelSet {
    /// With `label` besides.
    #[must_use]
    pub fn with(self, label: LabelName) -> Self {
        Self(self.0 | 1 << label as u16)
    }

    /// Whether `label` is in it.
    #[inline]
    pub fn has(self, label: LabelName) -> bool {
        self.0 & (1 << label as u16) != 0
    }

    pub(super) fn bits(self) -> u16 {
        self.0
    }
}

/// Which labels are left empty, for each metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hidden {
    sets: [LabelSet; Family::COUNT],
    everywhere: LabelSet,
}

impl Hidden {
    /// Leaves these labels of each metric empty.
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

    /// The labels of `family` that are left empty.
    pub(super) fn hidden_in(&self, family: Family) -> LabelSet {
        self.sets[family.index()]
    }

    /// The labels that no metric shows, so that they tell no two requests apart.
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
