//! Plugins of ShenYu that act on requests here, one file each.
//!
//! A new plugin needs a file in `plugins` and a line in the table below. Its order, its row in the
//! admin, the checks of its handles, and its step in explanations follow from its [`ShenyuPlugin`].
//! Its form is in `forms.json`.

use std::sync::Arc;

use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::matching::{Role, Roles};
use tollhouse_shenyu::model::Plugin;

use crate::absent;
use crate::course::Effect;
use crate::error::BuildError;
use crate::place::Place;
use crate::plugin::{
    Compiled, Fallthrough, Needs, Prediction, Preview, Run, ShenyuPlugin, Verdict,
};
use crate::resources::Resources;
use crate::row::Row;

macro_rules! shenyu_plugins {
    ($($module:ident::$plugin:ident,)*) => {
        $(pub(crate) mod $module;)*

        /// Compiled effect of a rule.
        #[derive(Debug, Clone)]
        pub(crate) enum Action {
            /// Passes requests on.
            Pass,
            /// Passes requests on, because the rule cannot be used for this reason.
            Broken(Arc<str>),
            /// Answers every request.
            Refuse(Answer),
            $($plugin(Arc<$module::$plugin>),)*
        }

        impl Action {
            /// Executes the action; see [`ShenyuPlugin::act`].
            pub(crate) async fn act<'o>(&self, run: &mut Run<'_, '_>) -> Verdict<'o> {
                match self {
                    Self::Pass | Self::Broken(_) => Verdict::Next,
                    Self::Refuse(answer) => Verdict::Refused(*answer),
                    $(Self::$plugin(rule) => ShenyuPlugin::act(rule, run).await,)*
                }
            }

            /// Predicts the effect of [`Self::act`].
            pub(crate) fn explain(&self, preview: &mut Preview<'_>) -> Prediction {
                match self {
                    Self::Pass => Prediction::Next(Effect::Passes),
                    Self::Broken(reason) => Prediction::Next(Effect::Broken((**reason).to_owned())),
                    Self::Refuse(answer) => Prediction::Refused(*answer),
                    $(Self::$plugin(rule) => ShenyuPlugin::explain(&**rule, preview),)*
                }
            }

            /// Whether the action creates the response; see [`ShenyuPlugin::creates_response`].
            pub(crate) fn creates_response(&self) -> bool {
                match self {
                    Self::Pass | Self::Broken(_) | Self::Refuse(_) => false,
                    $(Self::$plugin(rule) => ShenyuPlugin::creates_response(&**rule),)*
                }
            }

            /// Returns the parts of a request that the action depends on.
            #[inline]
            pub(crate) fn needs(&self) -> Needs<'_> {
                match self {
                    Self::Pass | Self::Broken(_) => Needs::Nothing,
                    Self::Refuse(_) => Needs::Exchange,
                    $(Self::$plugin(rule) => ShenyuPlugin::needs(&**rule),)*
                }
            }
        }

        /// Plugins that this gateway implements.
        const BUILT: &[Entry] = &[$(Entry {
            row: <$module::$plugin as ShenyuPlugin>::ROW,
            compile: |place, resources| {
                Ok(match <$module::$plugin as ShenyuPlugin>::compile(place, resources)? {
                    Compiled::Rule(rule) => Action::$plugin(Arc::new(rule)),
                    Compiled::Pass => Action::Pass,
                    Compiled::Refuse(answer) => Action::Refuse(answer),
                })
            },
            check_handle: <$module::$plugin as ShenyuPlugin>::check_handle,
            fallthrough: <$module::$plugin as ShenyuPlugin>::fallthrough,
        },)*];
    };
}

shenyu_plugins! {
    basic_auth::BasicAuthRule,
    cache::CacheAction,
    casdoor::CasdoorGate,
    context_path::ContextPathRule,
    cryptor_request::CryptorRequest,
    cryptor_response::CryptorResponse,
    divide::Divide,
    dubbo::DubboCaller,
    grpc::Grpc,
    hystrix::Hystrix,
    jwt::JwtRule,
    key_auth::KeyAuthRule,
    logging_click_house::LoggingClickHouse,
    logging_console::LoggingConsole,
    logging_elastic_search::LoggingElasticSearch,
    logging_kafka::LoggingKafka,
    mock::MockRule,
    modify_response::ResponseRule,
    oauth2::OAuth2,
    param_mapping::ParamMapping,
    rate_limiter::RateLimiter,
    redirect::RedirectRule,
    request::RequestRule,
    resilience4j::Resilience4j,
    rewrite::RewriteRule,
    sentinel::Sentinel,
    sign::SignRule,
    spring_cloud::SpringCloud,
    waf::WafRule,
    websocket::WebSocket,
}

/// Plugin that this gateway implements: its functions that need no compiled rule.
struct Entry {
    row: Row,
    compile: fn(&Place<'_>, &mut Resources<'_>) -> Result<Action, BuildError>,
    check_handle: fn(&str) -> Result<(), BuildError>,
    fallthrough: fn(&Plugin) -> Fallthrough,
}

fn built(plugin: &str) -> Option<&'static Entry> {
    BUILT.iter().find(|entry| entry.row.name == plugin)
}

impl Action {
    /// Compiles the rule of a plugin.
    ///
    /// # Errors
    ///
    /// If the plugin is not built in, or for the reasons of [`ShenyuPlugin::compile`].
    pub(crate) fn compile(
        place: &Place<'_>,
        resources: &mut Resources<'_>,
    ) -> Result<Self, BuildError> {
        match built(&place.plugin.name) {
            Some(entry) => (entry.compile)(place, resources),
            None => absent::pass_or_refuse(&place.plugin.name).map(|()| Self::Pass),
        }
    }
}

/// Checks whether rules of a plugin can take effect.
///
/// # Errors
///
/// If the plugin is not built in, and requests may not pass without it.
pub(crate) fn check_built(plugin: &str) -> Result<(), BuildError> {
    match built(plugin) {
        Some(_) => Ok(()),
        None => absent::pass_or_refuse(plugin),
    }
}

/// Checks whether a plugin accepts the handle of a rule. A blank handle is always accepted.
///
/// # Errors
///
/// If the gateway could not use the handle; the error says why.
pub fn check_handle(plugin: &str, handle: &str) -> Result<(), String> {
    match built(plugin).filter(|_| !handle.trim().is_empty()) {
        Some(entry) => (entry.check_handle)(handle).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

/// Returns the treatment of requests that match no selector or rule of a plugin.
pub(crate) fn fallthrough(plugin: &Plugin) -> Fallthrough {
    built(&plugin.name).map_or_else(Fallthrough::default, |entry| (entry.fallthrough)(plugin))
}

/// Lists the plugins of ShenYu, built in or not.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    BUILT.iter().map(|entry| &entry.row).chain(absent::rows())
}

/// Returns the row of a plugin; `None` for one that ShenYu does not have.
pub(crate) fn row(plugin: &str) -> Option<&'static Row> {
    rows().find(|row| row.name == plugin)
}

/// Returns the role of a plugin in matching.
pub(crate) fn role(plugin: &str) -> Role {
    row(plugin).map_or(Role::UNKNOWN, |row| row.role)
}

/// Roles of all plugins.
pub(crate) const ROLES: Roles = Roles(role);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::forms::forms;

    #[test]
    fn a_plugin_has_one_row_and_one_seed() {
        let names: Vec<&str> = rows().map(|row| row.name).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), distinct.len(), "{names:?}");
        let ids: Vec<&str> = rows().filter_map(|row| Some(row.seed?.id)).collect();
        assert!(ids.iter().all(|id| id.parse::<u16>().is_ok()), "{ids:?}");
        assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{ids:?}");
    }

    #[test]
    fn forms_belong_to_plugins() {
        let forms = forms()["plugins"].as_object().expect("an object");
        for name in forms.keys() {
            assert!(row(name).is_some(), "{name}");
        }
    }

    #[test]
    fn handles_are_refused_with_the_reason_for_which_a_rule_would_do_nothing() {
        for (plugin, handle, words) in [
            ("rewrite", r#"{"regex":"/a/(","replace":"/b"}"#, "cannot be compiled"),
            ("rewrite", r#"{"regex":"/a/{x}","replace":"/b/{y}"}"#, "`y`"),
            (
                "cryptorResponse",
                r#"{"strategyName":"rsa","way":"encrypt","fieldNames":"a"}"#,
                "`encryptKey`",
            ),
            ("divide", r#"{"loadBalance":"fair"}"#, "fair"),
            ("waf", "{}", "permission"),
        ] {
            let refused = check_handle(plugin, handle).expect_err(handle);
            assert!(refused.contains(words), "{refused}");
        }
        for (plugin, handle) in [("rewrite", " "), ("divide", "{}"), ("sofa", "what it likes")] {
            assert_eq!(check_handle(plugin, handle), Ok(()), "{plugin} {handle}");
        }
    }
}
