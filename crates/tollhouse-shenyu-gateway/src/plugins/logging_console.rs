//! Plugin `loggingConsole`: records exchanges in the gateway's own log.

use crate::plugin::prelude::*;
use crate::shared::record_rule::RecordRule;
use crate::shared::recorder::Recorder;

#[derive(Debug)]
pub(crate) struct LoggingConsole(Recorder);

impl ShenyuPlugin for LoggingConsole {
    const ROW: Row = Row::harmless("loggingConsole", 160).with(Seed::new("18", "Logging"));
    const EFFECT: Effect = Effect::Passes;

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = RecordRule::read(place.handle(), place.config())?;
        Ok(Self(Recorder::new(place, rule, None)).into())
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        self.0.act(run).await
    }
}
