//! Plugin `divide`: sends HTTP requests to the nodes of its selectors.

use tollhouse_shenyu::matching::RpcType;

use crate::plugin::prelude::*;
use crate::shared::forward;
use crate::shared::nodes::DivideRule;

#[derive(Debug)]
pub(crate) struct Divide(DivideRule);

impl ShenyuPlugin for Divide {
    const ROW: Row = Row::harmless("divide", 200).at(Stage::Proxy(RpcType::Http)).with(
        Seed::new("5", "Proxy")
            .enabled()
            .config(r#"{"multiSelectorHandle":"1","multiRuleHandle":"0"}"#),
    );

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = DivideRule::read(place.handle())?;
        Ok(forward::compile(place, RpcType::Http, rule, resources)?.map(Self))
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(DivideRule::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        forward::forward(&self.0, run)
    }

    fn explain(&self, preview: &mut Preview<'_>) -> Prediction {
        forward::explain(&self.0, preview)
    }

    fn needs(&self) -> Needs<'_> {
        Needs::Path(&self.0)
    }
}
