//! Plugins that learn who asks, seen from outside: key-auth, basic-auth, jwt-auth, hmac-auth,
//! multi-auth, consumer-restriction and acl, and what consumers bring along.

use serde_json::json;

use crate::cases::Bench;

/// What the tables call tokens and signatures; all were made by another implementation. Tokens
/// expire in 2100 unless their name says otherwise.
const MADE_ELSEWHERE: &[(&str, &str)] = &[
    (
        "{GOOD}",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJ1c2VyLWtleSIsImV4cCI6NDEwMjQ0NDgwMH0.Vvic3mhd6gbgARxkxqhMpPP3ztQv08bELL9zrsGED8o",
    ),
    (
        "{EXPIRED}",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJ1c2VyLWtleSIsImV4cCI6MTAwMH0.RJFko9tOIIHFQ34wSVFLX3Kr7X9eNbS2qNo1CLETgoQ",
    ),
    (
        "{NBF}",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJ1c2VyLWtleSIsIm5iZiI6NDEwMjQ0NDgwMH0.11isKE8c0ScPA_VIKBQOxTx8EH45sxud58L0zjkMKgo",
    ),
    (
        "{NOKEY}",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDB9.cOvWSYji9DLCU49NVMruhh8C9icSDxPiND2v8ynVOzI",
    ),
    (
        "{WRONGKEY}",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJub25lIiwiZXhwIjo0MTAyNDQ0ODAwfQ.aWihSg6qc2MIZmqTRZKRcDfm6BLjPfvkhHeZMFkeWt8",
    ),
    (
        "{BADSIG}",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJ1c2VyLWtleSIsImV4cCI6NDEwMjQ0NDgwMH0.avP-fP5_5Dj2Xstk8KxWcPPWJkx_7SAeDvnR5b2h_Nw",
    ),
    (
        "{HS512}",
        "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJ1c2VyLWtleSIsImV4cCI6NDEwMjQ0NDgwMH0.8dv909SOr6HA1KkDA6FduBLFpW5wtmUMw8MzfrUYDoAIvz4_m94hoR-AWqYaRiSFz0JUNYz5sPTRpp77rCdUmA",
    ),
    (
        "{HS512B}",
        "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJ1c2VyLTUxMiIsImV4cCI6NDEwMjQ0NDgwMH0.pFi9YYUbcMUuO-xNqpGkRUqr5sLhRlAhXxw6FcCkwZW9Rm99vqguR2cr7BURkd-x81RnsjrGmrLJiZAme9LljA",
    ),
    (
        "{NOEXP}",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJ1c2VyLWtleSJ9._7aoTZdzQDT0r9swHTcHb3nsujexcGjSTU-LRzTRVyY",
    ),
    (
        "{ISS}",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJ1c2VyLWtleSIsImV4cCI6NDEwMjQ0NDgwMH0.Q9_Bgkx4r5RbQc08m-Uy0rMnAu46q-FGcip3-COLads",
    ),
    (
        "{RS}",
        "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJ1c2VyLXJzIiwiZXhwIjo0MTAyNDQ0ODAwfQ.JxVljftYLxXykKF7LFu9vEaNzJE_0M1yQmjxT0y5mlK1qy_Ayr5xw3dT_h-MeP_1lEXhnTnsaacZVmWR_xSHqfvcVVosz9JbSxgZW-8y__iJr_CQTK4pwY1q5Kk1UDl3HrLrpcUqRV5G697yuS0jlU3ka3J3gFWxA5oWQvhE7wmmz_kqcafZxvwjMvbuyZYCt6-6oX8D2g8x5Mh3HTR2A4fw_ad-cVhkRQ7bbV2A2FLDewtb096RwcQGtIgmI2zBC7LdHtXy8xyrGpOiNMYkFbACbJ6EGn-4nkeLkn234KV0eMpF2rK_NFrYTboPVOWqHRM7UXC4S0IMZsAr6UpLFg",
    ),
    ("{H1}", "VpNOgYMv3zk6zDGYHa1e+NnkR3Pp4j2JQYEAbkmR38g="),
    ("{H2}", "Q4FBjE+L5/Lp3fCR1DszyERU8G+5qhKwyZTawI1JQn4="),
    (
        "{H512}",
        "cDXQXIx8vKSsb7G9iYTR/nKiPJ+ON9z2CJO2og1v/DdpzywM2X/bWVU1PzRSWUyOT7qNytjHI7gWPG4eoueJgQ==",
    ),
    ("{HB}", "kc1eB2X0t8sYeiupN3OUMUzNyE559orO19oEMoOrHwo="),
    ("{DIGEST}", "bZh29tVxZ264b3NbqUdtqR7F0MUqafZDTJP1yeaAIQ4="),
];

const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAp7ntOE12hgcErws5wH0v\n5sAGCqUGYOjfQalMEbvi4bQK1pKH0XoftJetDG4lUUm1yu/Q0Z1IYHdgk1xgRYRF\ndmZMSt6MI6lkhtfMebJDlOYiWn4GhFbR/Q9FUDLRxly+JzIyZRkxvkDsF7dv081M\nBEm4+iQZc4xaRfVc3uzTK0pzp+EJH6M4E2Ze2nmE/C4emTHImsw8LP9Bs231UOKt\n4t1g1s73gCEr+6tAzt7+WiLIxPDcd/IiAe8ksNmjX7DFzyrV2rIFi61SIk76QQAV\n4AAV6TjfIS5U1IMPcX5CwR5ROQ2RNRmAnC/0YwIJOou1KfVNkjLCfxVsBHOQ7EZK\n2wIDAQAB\n-----END PUBLIC KEY-----\n";

/// A table with the tokens in place of their names.
fn filled(table: &str) -> String {
    MADE_ELSEWHERE.iter().fold(table.to_owned(), |table, (name, value)| table.replace(name, value))
}

/// A bench with consumers of all kinds.
fn bench() -> Bench {
    let bench = Bench::start();
    let marked =
        |name: &str, value: &str| json!({"response-rewrite": {"headers": {"set": {name: value}}}});
    bench.put("/consumer_groups/g", json!({"plugins": marked("x-group", "g")}));
    let jack = json!({
        "key-auth": {"key": "auth-one"},
        "basic-auth": {"username": "foo", "password": "bar"},
        "jwt-auth": {"key": "user-key", "secret": "my-secret-key"},
        "hmac-auth": {"key_id": "my-key", "secret_key": "my-secret-key"},
    });
    let labels = json!({"custom_id": "c-7", "org": "apache"});
    bench.put("/consumers", json!({"username": "jack", "labels": labels, "plugins": jack}));
    let rose = json!({
        "key-auth": {"key": "auth-two"},
        "jwt-auth": {"key": "user-rs", "algorithm": "RS256", "public_key": PUBLIC_KEY},
    });
    bench.put("/consumers", json!({"username": "rose", "group_id": "g", "plugins": rose}));
    let secret = "fo4XKdZ1xSrIZyms4q2BwPrW5lMpls9qqy5tiAk2esc=";
    let tom = json!({"jwt-auth": {"key": "user-512", "algorithm": "HS512", "secret": secret}});
    bench.put("/consumers", json!({"username": "tom", "plugins": tom}));
    let anonymous = json!({"username": "anonymous", "plugins": marked("x-who", "nobody")});
    bench.put("/consumers", anonymous);
    let second = json!({"plugins": {"key-auth": {"key": "auth-three"}}});
    bench.put("/consumers/jack/credentials/second", second);
    bench
}

#[test]
fn keys_open() {
    bench().check(include_str!("cases/tables/key_auth.txt"));
}

#[test]
fn passwords_open() {
    bench().check(include_str!("cases/tables/basic_auth.txt"));
}

#[test]
fn tokens_open() {
    bench().check(&filled(include_str!("cases/tables/jwt_auth.txt")));
}

#[test]
fn signatures_open() {
    bench().check(&filled(include_str!("cases/tables/hmac_auth.txt")));
}

#[test]
fn consumers_are_told_apart() {
    bench().check(include_str!("cases/tables/consumers.txt"));
}

#[test]
fn authentication_refuses_bad_confs() {
    let bench = Bench::start();
    bench.refuse(include_str!("cases/tables/authentication_refusals.txt"));
    bench.refuse_in_consumers(include_str!("cases/tables/consumer_refusals.txt"));
}
