//! Plugin `loggingClickHouse`: records exchanges in ClickHouse.

use crate::plugin::prelude::*;
use crate::shared::record_store::StoreKind;
use crate::shared::recorder::Recorder;

#[derive(Debug)]
pub(crate) struct LoggingClickHouse(Recorder);

impl ShenyuPlugin for LoggingClickHouse {
    const ROW: Row = Row::harmless("loggingClickHouse", 195)
        .with(Seed::new("38", "Logging").config(r#"{"host":"127.0.0.1","port":"8123"}"#));
    const EFFECT: Effect = Effect::Passes;

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self(Recorder::for_store(StoreKind::ClickHouse, place, resources)?).into())
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        self.0.act(run).await
    }
}
