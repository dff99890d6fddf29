//! Users who log in.

use super::*;

/// Logged in for `/a`.
fn logged_in(provider: &IdentityProvider, more: Value) -> (Harness, Browser) {
    let mut browsers = harness(&for_browsers(provider, more));
    let mut browser = Browser::default();
    let back = browser.log_in(&mut browsers, provider, "/a");
    assert_eq!(location(&back), "/a", "{back:?}");
    (browsers, browser)
}

#[test]
fn a_user_logs_in_and_is_known_from_then_on() {
    let provider = provider();
    let conf = json!({"use_pkce": true, "use_nonce": true, "set_refresh_token_header": true,
        "set_raw_id_token_header": true, "authorization_params": {"hd": "a b", "state": "forged"}});
    let mut browsers = harness(&for_browsers(&provider, conf));
    let mut browser = Browser::default();
    let sent = browser.get(&mut browsers, "/a/b?c=d%20e");
    assert_eq!(sent.header("Cache-Control"), Some("no-store"));
    let asked = form(location(&sent).split_once('?').expect("a query").1);
    assert_eq!(asked["redirect_uri"], "http://shop.test/callback");
    assert_eq!((&*asked["scope"], &*asked["hd"]), ("openid", "a b"));
    assert!(asked["state"].len() > 40 && asked["nonce"].len() > 40);
    let cookie = sent.header("Set-Cookie").expect("a cookie");
    assert!(cookie.ends_with("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax"), "{cookie}");
    let back = browser.get(&mut browsers, path_of(&provider.log_in(location(&sent))));
    assert_eq!(location(&back), "/a/b?c=d%20e");
    let cookie = back.header("Set-Cookie").expect("a cookie");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
    // Of the log-in nothing stays.
    assert_eq!(browser.cookies.keys().collect::<Vec<_>>(), ["session"]);
    browser.cookies.insert("own".to_owned(), "1".to_owned());
    let passed = browser.get_with(&mut browsers, "/a", "X-Userinfo: forged\n");
    assert!(passed.passes(), "{passed:?}");
    assert_eq!(claims(&passed.edits, "X-Userinfo")["name"], "J\u{f6}rg\r\nX-Admin: yes");
    assert_eq!(claims(&passed.edits, "X-ID-Token")["sub"], "user-1");
    for line in ["+X-Access-Token: access-", "+X-Refresh-Token: refresh-", "+X-Raw-ID-Token: ey"] {
        assert!(passed.edits.contains(line), "{line}: {}", passed.edits);
    }
    // Nodes get their own cookies alone.
    assert!(passed.edits.contains("+Cookie: own=1\n"), "{}", passed.edits);
    assert_eq!(provider.requests("/token").len(), 1);
}

#[test]
fn who_is_not_known_is_treated_as_the_conf_says() {
    let provider = provider();
    for (action, status) in [("auth", 302), ("deny", 401), ("pass", 0)] {
        let mut browsers = harness(&for_browsers(&provider, json!({"unauth_action": action})));
        let outcome = browsers.request("GET /a HTTP/1.1\nX-Userinfo: forged\n\n");
        assert_eq!(outcome.status(), status, "{action}");
        if outcome.passes() {
            assert!(outcome.edits.contains("-X-Userinfo\n"), "{}", outcome.edits);
        }
        // A token that is not good is not passed over, where tokens count.
        let conf = json!({"unauth_action": action, "use_jwks": true});
        let mut both = harness(&for_browsers(&provider, conf));
        assert_eq!(bring(&mut both, "a.b.c").status(), 401, "{action}");
        assert!(bring(&mut both, &provider.token(&json!({}))).passes(), "{action}");
    }
}

#[test]
fn a_callback_counts_once_and_for_the_browser_that_was_sent_alone() {
    let provider = provider();
    let mut browsers = harness(&for_browsers(&provider, json!({})));
    let mut browser = Browser::default();
    let sent = browser.get(&mut browsers, "/a");
    let back = provider.log_in(location(&sent));
    let back = path_of(&back);
    let before = browser.clone();
    let refused = |browsers: &mut Harness, browser: &mut Browser, target: &str| {
        let outcome = browser.get(browsers, target);
        assert_eq!(outcome.status(), 500, "{target}: {outcome:?}");
        assert!(!browser.cookies.contains_key("session"), "{target}");
        outcome.body().to_owned()
    };
    // The address in another browser logs nobody in there.
    let elsewhere = refused(&mut browsers, &mut Browser::default(), back);
    assert!(elsewhere.contains("this browser did not start the login"), "{elsewhere}");
    // Nor does a state that was begun in this one, and is another.
    let mut other = Browser::default();
    let other_sent = other.get(&mut browsers, "/a");
    let other_back = provider.log_in(location(&other_sent));
    refused(&mut browsers, &mut browser, path_of(&other_back));
    for target in ["/callback?code=1", "/callback?state=&code=1", "/callback?state=9x"] {
        refused(&mut browsers, &mut browser, target);
    }
    let came_back = browser.get(&mut browsers, back);
    assert_eq!(location(&came_back), "/a");
    // Who has copied address and cookies comes too late.
    let late = refused(&mut browsers, &mut before.clone(), back);
    assert!(late.contains("already been used"), "{late}");
    assert_eq!(provider.requests("/token").len(), 1);
    let mut slow = Browser::default();
    let sent = slow.get(&mut browsers, "/a");
    browsers.now_ms += 600_000;
    let slow_back = provider.log_in(location(&sent));
    refused(&mut browsers, &mut slow, path_of(&slow_back));
}

#[test]
fn an_answer_that_is_not_the_providers_or_not_for_this_log_in_logs_nobody_in() {
    let provider = provider();
    let conf = for_browsers(&provider, json!({}));
    let attempt = |extra: &str, drops_code: bool| {
        let (mut browsers, mut browser) = (harness(&conf), Browser::default());
        let sent = browser.get(&mut browsers, "/a");
        let back = provider.log_in(location(&sent));
        let back = path_of(&back);
        let back = if drops_code { back.replace("code=", "c=") } else { back.to_owned() };
        browser.get(&mut browsers, &format!("{back}{extra}"))
    };
    assert_eq!(attempt("&iss=http://evil.test", false).status(), 500);
    assert_eq!(attempt(&format!("&iss={}", provider.issuer()), false).status(), 302);
    let shown = attempt("&error=x%0D%0A%3Cscript%3E&error_description=%22%3Cb%3E", true);
    assert_eq!(shown.status(), 500);
    assert_eq!(shown.header("X-Content-Type-Options"), Some("nosniff"));
    let body = shown.body();
    assert!(body.contains("the identity provider refuses: xscript") && !body.contains('<'), "{body}");
    assert_eq!(attempt("", true).status(), 500);
    for claims in [
        json!({"iss": "http://evil.test"}),
        json!({"aud": "other"}),
        json!({"aud": ["shop"], "azp": "other"}),
        json!({"nonce": "other"}),
        json!({"sub": null}),
        json!({"sub": "user-2"}),
        json!({"exp": NOW - 121}),
        json!({"exp": null}),
        json!({"iat": NOW + 121}),
    ] {
        provider.claim(claims.clone());
        assert_eq!(attempt("", false).status(), 500, "{claims}");
    }
    provider.claim(json!({}));
    assert_eq!(attempt("", false).status(), 302);
}

#[test]
fn an_unsigned_id_token_counts_only_where_the_conf_takes_it() {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let provider = provider();
    let id_claims = json!({"iss": provider.issuer(), "sub": "user-1", "aud": "shop", "exp": NOW + 9});
    let head = part(&json!({"alg": "none"}));
    let unsigned = format!("{head}.{}.", part(&id_claims));
    provider.behave("/token", Behaviour::With(json!({ "id_token": unsigned })));
    for (accepts, status) in [(false, 500), (true, 302)] {
        let mut browsers = harness(&for_browsers(&provider, json!({"accept_none_alg": accepts})));
        let back = Browser::default().log_in(&mut browsers, &provider, "/a");
        assert_eq!(back.status(), status, "{accepts}");
    }
}

#[test]
fn a_provider_that_fails_in_the_middle_of_a_log_in_logs_nobody_in() {
    let provider = provider();
    let mut browsers = harness(&for_browsers(&provider, json!({})));
    for behaviour in hostilities() {
        provider.behave("/token", behaviour.clone());
        let mut browser = Browser::default();
        let back = browser.log_in(&mut browsers, &provider, "/a");
        assert_eq!(back.status(), 500, "{behaviour:?}: {back:?}");
        assert!(browser.cookies.is_empty(), "{browser:?}");
    }
    for members in [
        json!({"access_token": null}),
        json!({"access_token": "a\r\nX-Admin: yes"}),
        json!({"token_type": "mac"}),
        json!({"id_token": null}),
        json!({"id_token": "a.b.c"}),
    ] {
        provider.behave("/token", Behaviour::With(members.clone()));
        let back = Browser::default().log_in(&mut browsers, &provider, "/a");
        assert_eq!(back.status(), 500, "{members}: {back:?}");
    }
    provider.behave("/token", Behaviour::Honest);
    // Who the user is says the ID token; without more the user is known all the same.
    for behaviour in hostilities() {
        provider.behave("/userinfo", behaviour.clone());
        let mut browser = Browser::default();
        assert_eq!(browser.log_in(&mut browsers, &provider, "/a").status(), 302, "{behaviour:?}");
        let passed = browser.get(&mut browsers, "/a");
        assert!(passed.passes() && !passed.edits.contains("+X-Userinfo"), "{passed:?}");
    }
    provider.behave("/userinfo", Behaviour::With(json!({"sub": "user-2"})));
    let back = Browser::default().log_in(&mut browsers, &provider, "/a");
    assert_eq!(back.status(), 500, "it speaks of somebody else");
}

#[test]
fn a_session_that_was_changed_cut_or_made_for_another_client_is_none() {
    let provider = provider();
    let (mut browsers, browser) = logged_in(&provider, json!({}));
    let session = browser.cookies["session"].clone();
    let with = |value: &str| {
        let cookies = [("session".to_owned(), value.to_owned())].into();
        Browser { cookies }
    };
    assert!(with(&session).get(&mut browsers, "/a").passes());
    let mut changed = session.clone().into_bytes();
    changed[40] ^= 1;
    let changed = String::from_utf8_lossy(&changed).into_owned();
    for value in [&session[..session.len() - 1], &session[1..], &changed, "", "1", "2", "x"] {
        assert_eq!(with(value).get(&mut browsers, "/a").status(), 302, "{value}");
    }
    // A log-in that is under way is no session.
    let mut begun = Browser::default();
    begun.get(&mut browsers, "/a");
    let login = begun.cookies.values().next().expect("a cookie").clone();
    assert_eq!(with(&login).get(&mut browsers, "/a").status(), 302);
    for more in [
        json!({"client_id": "other"}),
        json!({"discovery": format!("{}?x", provider.discovery())}),
        json!({"session": {"secret": "another of sixteen letters"}}),
    ] {
        let mut other = harness(&for_browsers(&provider, more));
        assert_eq!(with(&session).get(&mut other, "/a").status(), 302);
    }
    let mut same = harness(&for_browsers(&provider, json!({"realm": "other"})));
    assert!(with(&session).get(&mut same, "/a").passes());
}

#[test]
fn sessions_end_by_time() {
    let provider = provider();
    let session = json!({"secret": "a secret of sixteen letters", "idling_timeout": 100,
        "rolling_timeout": 200, "absolute_timeout": 500});
    let conf = json!({ "session": session });
    provider.grant_for(100_000);
    let (mut browsers, mut browser) = logged_in(&provider, conf.clone());
    let begun_ms = browsers.now_ms;
    while browsers.now_ms < begun_ms + 450_000 {
        browsers.now_ms += 50_000;
        assert!(browser.get(&mut browsers, "/a").passes(), "{}", browsers.now_ms - begun_ms);
    }
    browsers.now_ms += 50_000;
    assert_eq!(browser.get(&mut browsers, "/a").status(), 302, "it has been long enough");
    let (mut browsers, mut browser) = logged_in(&provider, conf);
    browsers.now_ms += 100_000;
    assert_eq!(browser.get(&mut browsers, "/a").status(), 302, "nobody has used it");
}

#[test]
fn access_tokens_are_renewed_once_for_all_who_bring_the_same_session() {
    let provider = provider();
    let (mut browsers, mut browser) = logged_in(&provider, json!({}));
    browsers.now_ms += 300_000;
    provider.set_time(NOW + 300);
    let mut copy = browser.clone();
    let token = |outcome: &Outcome| {
        let line = outcome.edits.lines().find(|line| line.starts_with("+X-Access-Token"));
        line.unwrap_or_else(|| panic!("{outcome:?}")).to_owned()
    };
    let first = token(&browser.get(&mut browsers, "/a"));
    assert_eq!(token(&copy.get(&mut browsers, "/a")), first, "each token renews once");
    assert_eq!(token(&browser.get(&mut browsers, "/a")), first);
    assert_eq!(provider.requests("/token").len(), 2);
    // While the provider is away nobody passes, and nobody has to log in again for it.
    browsers.now_ms += 300_000;
    provider.set_time(NOW + 600);
    for behaviour in [Behaviour::Away, Behaviour::Says(502, String::new())] {
        provider.behave("/token", behaviour);
        assert_eq!(browser.get(&mut browsers, "/a").status(), 503);
    }
    provider.behave("/token", Behaviour::Honest);
    assert_ne!(token(&browser.get(&mut browsers, "/a")), first);
    // What was taken back is not renewed.
    browsers.now_ms += 300_000;
    provider.set_time(NOW + 900);
    provider.end_tokens();
    assert_eq!(browser.get(&mut browsers, "/a").status(), 302);
    // Somebody else's answer is none.
    provider.set_time(NOW);
    let (mut browsers, mut browser) = logged_in(&provider, json!({}));
    browsers.now_ms = (NOW + 1_200) * 1_000;
    provider.set_time(NOW + 1_200);
    provider.claim(json!({"sub": "user-2"}));
    assert_eq!(browser.get(&mut browsers, "/a").status(), 302);
}

#[test]
fn a_user_logs_out_here_and_at_the_provider() {
    let provider = provider();
    let conf = json!({"logout_path": "/bye", "post_logout_redirect_uri": "https://shop.test/",
        "revoke_tokens_on_logout": true});
    let (mut browsers, mut browser) = logged_in(&provider, conf.clone());
    let sent = browser.get(&mut browsers, "/bye");
    let (address, query) = location(&sent).split_once('?').expect("a query");
    assert_eq!(address, provider.url("/logout"));
    let said = form(query);
    assert_eq!(said["post_logout_redirect_uri"], "https://shop.test/");
    assert!(said["id_token_hint"].starts_with("ey"));
    assert!(browser.cookies.is_empty());
    let revoked: Vec<_> =
        provider.requests("/revoke").iter().map(|it| form(&it.text())["token_type_hint"].clone()).collect();
    assert_eq!(revoked, ["refresh_token", "access_token"]);
    assert_eq!(browser.get(&mut browsers, "/a").status(), 302);
    // A provider that does not log out is left alone.
    provider.behave(
        "/.well-known/openid-configuration",
        Behaviour::With(json!({"end_session_endpoint": null})),
    );
    let mut browsers = harness(&for_browsers(&provider, conf));
    assert_eq!(location(&Browser::default().get(&mut browsers, "/bye")), "https://shop.test/");
    let mut browsers = harness(&for_browsers(&provider, json!({})));
    let page = Browser::default().get(&mut browsers, "/logout");
    assert_eq!((page.status(), page.body()), (200, "<html><body>Logged Out</body></html>"));
    provider.behave("/.well-known/openid-configuration", Behaviour::Away);
    let mut browsers = harness(&for_browsers(&provider, json!({})));
    let mut browser = Browser { cookies: [("session".to_owned(), "1x".to_owned())].into() };
    assert_eq!(browser.get(&mut browsers, "/logout").status(), 503);
    assert!(browser.cookies.is_empty(), "here the session is over");
}

#[test]
fn scopes_and_schemas_are_asked_of_who_has_logged_in_too() {
    let provider = provider();
    let (mut browsers, mut browser) = logged_in(&provider, json!({"required_scopes": ["read"]}));
    assert_eq!(browser.get(&mut browsers, "/a").status(), 403);
    provider.behave("/token", Behaviour::With(json!({"scope": "openid read"})));
    let (mut browsers, mut browser) = logged_in(&provider, json!({"required_scopes": ["read"]}));
    assert!(browser.get(&mut browsers, "/a").passes());
    let schema = |name: &str| json!({"claim_schema": {"properties": {"user": {"properties": {"name": {"const": name}}}}}});
    let (mut browsers, mut browser) = logged_in(&provider, schema("J\u{f6}rg\r\nX-Admin: yes"));
    assert!(browser.get(&mut browsers, "/a").passes());
    let (mut browsers, mut browser) = logged_in(&provider, schema("other"));
    assert_eq!(browser.get(&mut browsers, "/a").status(), 401);
}

#[test]
fn browsers_come_back_below_the_path_that_was_asked_for_where_the_conf_names_none() {
    let provider = provider();
    let mut browsers = harness(&for_browsers(&provider, json!({"redirect_uri": ""})));
    let mut browser = Browser::default();
    let sent = browser.get_with(&mut browsers, "//evil.test/x", "X-Forwarded-Proto: https\n");
    let asked = form(location(&sent).split_once('?').expect("a query").1);
    assert_eq!(asked["redirect_uri"], "https://shop.test//evil.test/x/.apisix/redirect");
    assert!(sent.header("Set-Cookie").is_some_and(|cookie| cookie.contains("; Secure;")));
    let back = provider.log_in(location(&sent));
    let back = browser.get(&mut browsers, path_of(&back));
    assert_eq!(location(&back), "/evil.test/x", "another host is none of its paths");
    let bad = browsers.request("GET /a HTTP/1.1\nHost: a@b\n\n");
    assert_eq!(bad.status(), 400);
}

#[test]
fn parameters_go_to_the_provider_directly_where_the_conf_says_so() {
    let provider = provider();
    let conf = json!({"par": {"enabled": true}, "use_pkce": true});
    let mut browsers = harness(&for_browsers(&provider, conf));
    provider.behave("/par", Behaviour::Says(201, "{\"request_uri\":\"urn:1\"}".to_owned()));
    let sent = Browser::default().get(&mut browsers, "/a");
    let asked = form(location(&sent).split_once('?').expect("a query").1);
    assert_eq!((asked.len(), &*asked["request_uri"]), (2, "urn:1"));
    let pushed = form(&provider.requests("/par")[0].text());
    assert_eq!(pushed["code_challenge_method"], "S256");
    provider.behave("/par", Behaviour::Away);
    assert_eq!(Browser::default().get(&mut browsers, "/a").status(), 503);
}

#[test]
fn the_provider_is_asked_again_without_a_word_to_the_user_after_an_interval() {
    let provider = provider();
    provider.grant_for(100_000);
    let (mut browsers, mut browser) = logged_in(&provider, json!({"refresh_session_interval": 60}));
    browsers.now_ms += 60_000;
    let sent = browser.get(&mut browsers, "/a");
    let asked = form(location(&sent).split_once('?').expect("a query").1);
    assert_eq!(asked["prompt"], "none");
    let state = &asked["state"];
    // The user has to do something: so the user is asked.
    let back = format!("/callback?error=login_required&state={state}");
    let again = browser.get(&mut browsers, &back);
    assert!(!location(&again).contains("prompt=none"), "{again:?}");
    let back = provider.log_in(location(&again));
    assert_eq!(location(&browser.get(&mut browsers, path_of(&back))), "/a");
    assert!(browser.get(&mut browsers, "/a").passes());
}

#[test]
fn a_page_at_the_redirect_uri_is_sent_to_the_provider_and_served_to_who_has_logged_in() {
    let provider = provider();
    let conf = for_browsers(&provider, json!({"redirect_uri": "http://shop.test/"}));
    let mut browsers = harness(&conf);
    let mut browser = Browser::default();
    let sent = browser.get(&mut browsers, "/");
    assert_eq!(sent.status(), 302, "{sent:?}");
    let back = provider.log_in(location(&sent));
    let came_back = browser.get(&mut browsers, path_of(&back));
    assert_eq!((came_back.status(), location(&came_back)), (302, "/"));
    assert!(browser.get(&mut browsers, "/").passes());
    assert_eq!(browser.get(&mut browsers, "/?code=1").status(), 500);
}
