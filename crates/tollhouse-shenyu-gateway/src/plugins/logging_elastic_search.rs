//! Plugin `loggingElasticSearch`: records exchanges in Elasticsearch.

use crate::plugin::prelude::*;
use crate::shared::record_store::StoreKind;
use crate::shared::recorder::Recorder;

#[derive(Debug)]
pub(crate) struct LoggingElasticSearch(Recorder);

impl ShenyuPlugin for LoggingElasticSearch {
    const ROW: Row = Row::harmless("loggingElasticSearch", 190)
        .with(Seed::new("32", "Logging").config(r#"{"host":"localhost","port":"9200"}"#));
    const EFFECT: Effect = Effect::Passes;

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self(Recorder::for_store(StoreKind::Elasticsearch, place, resources)?).into())
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        self.0.act(run).await
    }
}
