//! Plugin `loggingKafka`: records exchanges in a topic of Kafka. Selectors may set the topic and
//! the sampling rate.

use crate::absent::LOGS;
use crate::plugin::prelude::*;
use crate::shared::record_rule::RecordRule;
use crate::shared::record_store::{KafkaTopic, RecordPlace};
use crate::shared::recorder::{Recorder, SERVERS};

#[derive(Debug)]
pub(crate) struct LoggingKafka(Recorder);

impl ShenyuPlugin for LoggingKafka {
    const ROW: Row =
        Row::harmless("loggingKafka", 180).with(Seed::new("33", "Logging").config(LOGS));
    const EFFECT: Effect = Effect::Passes;

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        let selector = place.selector.handle.as_deref();
        let (topic, rate) = KafkaTopic::read(place.config(), selector)?;
        let rule = RecordRule::read(place.handle(), place.config())?;
        let rule = match rate {
            Some(rate) => rule.with_rate(&rate)?,
            None => rule,
        };
        let sink = resources.engines(SERVERS)?.records(&RecordPlace::Topic(topic));
        Ok(Self(Recorder::new(place, rule, Some(sink))).into())
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        self.0.act(run).await
    }
}
