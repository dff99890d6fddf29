//! Plugin `oauth2`: admits users who are logged in at an identity provider, and passes their token
//! to nodes. Other users are redirected to the provider's login.

pub(crate) mod client;

use self::client::OAuth2Client;
use crate::engines::Logins;
use crate::plugin::prelude::*;

/// Login handler of the configured client.
#[derive(Debug)]
pub(crate) struct OAuth2(Arc<dyn Logins>);

impl ShenyuPlugin for OAuth2 {
    const ROW: Row = Row::protecting("oauth2", 40).with(Seed::new("21", "Authentication"));

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        let client = OAuth2Client::read(place.config())?;
        Ok(Self(resources.engines("providers")?.logins(&client)?).into())
    }

    /// Admits a user who is logged in, and redirects others to the login.
    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        match self.0.admit(run.cx).await {
            Ok(cookies) => {
                run.turn.aftermath.cookies.extend(cookies);
                Verdict::Next
            }
            Err(answer) => Verdict::answered(answer.borrowed()),
        }
    }
}
