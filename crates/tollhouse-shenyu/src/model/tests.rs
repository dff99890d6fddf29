//! Tests of the objects in texts of ShenYu 2.6 and 2.7 and in handwritten ones. Members are absent,
//! `null` or quoted.

use super::*;

#[test]
fn selectors_of_both_versions_are_read() {
    let old = r#"{"id":"1","pluginId":"5","pluginName":"divide","name":"/order","matchMode":0,"type":1,
        "sort":1,"enabled":true,"logged":true,"continued":true,
        "handle":"[{\"upstreamUrl\":\"10.0.0.5:8080\"}]",
        "conditionList":[{"paramType":"uri","operator":"startsWith","paramName":"/","paramValue":"/order/"}],
        "beforeConditionList":null,"matchRestful":false}"#;
    let selector: Selector = serde_json::from_str(old).unwrap();
    assert_eq!(selector.selector_type(), SelectorType::Custom);
    assert_eq!(selector.mode(), MatchMode::And);
    assert_eq!(selector.condition_list[0].param_value.as_deref(), Some("/order/"));
    assert_eq!(selector.namespace_id, None);
    assert!(!serde_json::to_string(&selector).unwrap().contains("namespaceId"));

    let new = old.replacen('{', &format!(r#"{{"namespaceId":"{DEFAULT_NAMESPACE}","#), 1);
    let selector: Selector = serde_json::from_str(&new).unwrap();
    assert_eq!(selector.namespace_id.as_deref(), Some(DEFAULT_NAMESPACE));
}

#[test]
fn both_spellings_of_logged_are_read_and_each_channel_has_its_own() {
    for name in ["loged", "logged"] {
        let text = format!(r#"{{"{name}":true}}"#);
        let selector: Selector = serde_json::from_str(&text).unwrap();
        let rule: Rule = serde_json::from_str(&text).unwrap();
        assert!(selector.logged && rule.logged, "{name}");
        assert!(serde_json::to_string(&selector).unwrap().contains(r#""logged":true"#));
        assert!(serde_json::to_string(&rule).unwrap().contains(r#""loged":true"#));
    }
}

#[test]
fn null_is_as_good_as_absent() {
    let nulls =
        r#"{"enabled":null,"sort":null,"conditionDataList":null,"name":null,"handle":null}"#;
    let rule: Rule = serde_json::from_str(nulls).unwrap();
    assert_eq!(rule, Rule::default());
    assert!(rule.enabled);
    let plugin: Plugin = serde_json::from_str(r#"{"sort":"20","enabled":"false"}"#).unwrap();
    assert_eq!((plugin.sort, plugin.enabled), (Some(20), false));
}

#[test]
fn unknown_codes_of_match_mode_mean_and() {
    for (code, mode) in [(0, MatchMode::And), (1, MatchMode::Or), (7, MatchMode::And)] {
        assert_eq!(MatchMode::from_code(code), mode);
    }
}

#[test]
fn only_status_0_is_healthy() {
    for (text, healthy) in [(r#"{"status":0}"#, true), ("{}", true), (r#"{"status":1}"#, false)] {
        let upstream: DiscoveryUpstream = serde_json::from_str(text).unwrap();
        assert_eq!(upstream.is_healthy(), healthy, "{text}");
    }
}

#[test]
fn secrets_of_applications_are_not_printed() {
    let auth: AppAuth =
        serde_json::from_str(r#"{"appKey":"A1","appSecret":"S1","open":null}"#).unwrap();
    let printed = format!("{auth:?}");
    assert!(printed.contains("A1") && !printed.contains("S1"));
    assert!(auth.open);
}

#[test]
fn a_granted_path_must_say_that_it_is_enabled() {
    let path: AuthPath = serde_json::from_str(r#"{"path":"/a/**"}"#).unwrap();
    assert!(!path.enabled);
}
