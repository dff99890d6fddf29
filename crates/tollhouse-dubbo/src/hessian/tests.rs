//! What Java's library writes is read, and what is written is read again.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Values as hessian-lite 3.2.13, the library of Dubbo 2.7, writes them, and the same as JSON.
const OF_JAVA: &[(&str, &str)] = &[
    ("4e", r#"null"#),
    ("54", r#"true"#),
    ("46", r#"false"#),
    ("90", r#"0"#),
    ("80", r#"-16"#),
    ("bf", r#"47"#),
    ("c7ef", r#"-17"#),
    ("c830", r#"48"#),
    ("c000", r#"-2048"#),
    ("cfff", r#"2047"#),
    ("d3f7ff", r#"-2049"#),
    ("d40800", r#"2048"#),
    ("d00000", r#"-262144"#),
    ("d7ffff", r#"262143"#),
    ("49fffbffff", r#"-262145"#),
    ("4900040000", r#"262144"#),
    ("497fffffff", r#"2147483647"#),
    ("4980000000", r#"-2147483648"#),
    ("e0", r#"0"#),
    ("d8", r#"-8"#),
    ("ef", r#"15"#),
    ("f7f7", r#"-9"#),
    ("f810", r#"16"#),
    ("f000", r#"-2048"#),
    ("ffff", r#"2047"#),
    ("3bf7ff", r#"-2049"#),
    ("3c0800", r#"2048"#),
    ("380000", r#"-262144"#),
    ("3fffff", r#"262143"#),
    ("59fffbffff", r#"-262145"#),
    ("5900040000", r#"262144"#),
    ("597fffffff", r#"2147483647"#),
    ("5980000000", r#"-2147483648"#),
    ("4c7fffffffffffffff", r#"9223372036854775807"#),
    ("4c8000000000000000", r#"-9223372036854775808"#),
    ("4c0000000080000000", r#"2147483648"#),
    ("5b", r#"0.0"#),
    ("5c", r#"1.0"#),
    ("5d80", r#"-128.0"#),
    ("5d7f", r#"127.0"#),
    ("5e0080", r#"128.0"#),
    ("5e8000", r#"-32768.0"#),
    ("5e7fff", r#"32767.0"#),
    ("5f000001f4", r#"0.5"#),
    ("5f00002fda", r#"12.25"#),
    ("5f00000001", r#"0.001"#),
    ("44400921f9f01b866e", r#"3.14159"#),
    ("444202a05f20000000", r#"1.0E10"#),
    ("5ffffffa24", r#"-1.5"#),
    ("00", r#""""#),
    ("0161", r#""a""#),
    (
        "1f78787878787878787878787878787878787878787878787878787878787878",
        r#""xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx""#,
    ),
    (
        "30207878787878787878787878787878787878787878787878787878787878787878",
        r#""xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx""#,
    ),
    ("02c3a9e282ac", r#""é€""#),
    ("0461eda0bdedb88062", r#""a😀b""#),
    ("23010203", r#""AQID""#),
    ("73136a6176612e7574696c2e41727261794c6973749101614e", r#"[1,"a",null]"#),
    ("71146a6176612e7574696c2e4c696e6b65644c69737491", r#"[1]"#),
    ("56136a6176612e7574696c2e41727261794c697374989192939495969798", r#"[1,2,3,4,5,6,7,8]"#),
    ("72075b737472696e6701610162", r#"["a","b"]"#),
    ("72075b6f626a656374016191", r#"["a",1]"#),
    ("72045b696e749192", r#"[1,2]"#),
    ("480161915a", r#"{"a":1}"#),
    ("4d176a6176612e7574696c2e4c696e6b6564486173684d617001619101624e5a", r#"{"a":1,"b":null}"#),
    (
        "43065624506f6a6f94016c046e65787403616765046e616d656072136a6176612e7574696c2e41727261794c69737491924e950161",
        r#"{"l":[1,2],"next":null,"age":5,"name":"a"}"#,
    ),
    (
        "72136a6176612e7574696c2e41727261794c69737443065624506f6a6f94016c046e65787403616765046e616d6560729091924e95016160729091924e950161",
        r#"[{"l":[1,2],"next":null,"age":5,"name":"a"},{"l":[1,2],"next":null,"age":5,"name":"a"}]"#,
    ),
    ("4a0000018bcfe56800", r#""2023-11-14 22:13:20""#),
    ("4b01b05515", r#""2023-11-14 22:13:00""#),
    ("43146a6176612e6d6174682e426967446563696d616c910576616c7565600531322e3530", r#"12.50"#),
    (
        "43146a6176612e6d6174682e426967496e746567657296036d61671966697273744e6f6e7a65726f496e744e756d506c757354776f136c6f77657374536574426974506c757354776f106269744c656e677468506c75734f6e650f626974436f756e74506c75734f6e65067369676e756d6072045b696e7449ab54a98c49eb1f0ad29090909091",
        r#"12345678901234567890"#,
    ),
    (
        "72136a6176612e7574696c2e41727261794c69737443065624506f6a6f94016c046e65787403616765046e616d6560729091924e9501615191",
        r#"[{"l":[1,2],"next":null,"age":5,"name":"a"},{"l":[1,2],"next":null,"age":5,"name":"a"}]"#,
    ),
    ("95", r#"5"#),
    ("95", r#"5"#),
    ("5f000005dc", r#"1.5"#),
    ("0163", r#""c""#),
    ("43166a6176612e6c616e672e54687265616424537461746591046e616d6560034e4557", r#""NEW""#),
    ("71116a6176612e7574696c2e4861736853657491", r#"[1]"#),
    (
        "433037636f6d2e616c69626162612e636f6d2e63617563686f2e6865737369616e2e696f2e6a617661382e4c6f63616c4461746548616e646c659303646179056d6f6e74680479656172609291cfe8",
        r#"{"day":2,"month":1,"year":2024}"#,
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

#[test]
fn what_java_writes_is_read() {
    for (hex, expected) in OF_JAVA {
        let message = bytes(hex);
        let mut reader = Reader::new(&message);
        let value = reader.value().unwrap_or_else(|error| panic!("{hex}: {error}"));
        let expected: Value = serde_json::from_str(expected).expect("it is JSON");
        let is_same = match (value.as_f64(), expected.as_f64()) {
            (Some(one), Some(other)) => (one - other).abs() <= other.abs() * 1e-12,
            _ => value == expected,
        };
        assert!(is_same && reader.is_at_end(), "{hex}: {value} {expected}");
    }
}

#[test]
fn whole_numbers_and_texts_are_written_as_java_writes_them() {
    for (hex, json) in OF_JAVA {
        let value: Value = serde_json::from_str(json).expect("it is JSON");
        // Java has `long` where JSON has one kind of number, dates, and numbers with a part behind the point.
        let is_own = match &value {
            Value::String(text) => {
                hex.len() > 1 && !text.starts_with("2023") && text != "NEW" && text != "AQID"
            }
            Value::Number(number) => number.is_i64() && matches!(bytes(hex)[0], 0x80..=0xd7 | b'I'),
            other => !other.is_array() && !other.is_object(),
        };
        if is_own {
            let mut writer = Writer::default();
            writer.value(&value);
            assert_eq!(writer.into_bytes(), bytes(hex), "{json}");
        }
    }
}

#[test]
fn a_message_cannot_grow_without_end() {
    // A list of lists, each with the one before it twice: 2^40 values in 200 bytes.
    let mut lists = vec![b'W'];
    lists.extend([0x7a, b'N', b'N']);
    for level in 1..40_u8 {
        let index = if level < 0x2f { vec![0x90 + level] } else { vec![0xc8, level] };
        lists.extend([&[0x7a, 0x51][..], &index, &[0x51], &index].concat());
    }
    lists.push(b'Z');
    assert!(matches!(Reader::new(&lists).value(), Err(ReadError::TooLarge(_))), "copies");
    let deep = vec![0x79; 10_000];
    assert!(matches!(Reader::new(&deep).value(), Err(ReadError::TooLarge(_))), "depth");
    for lie in
        [&b"X\x49\x7f\xff\xff\xff"[..], b"S\xff\xff", b"B\xff\xffa", b"C\x01a\x49\x7f\xff\xff\xff"]
    {
        assert!(Reader::new(lie).value().is_err(), "{lie:?}");
    }
    // Fields without names, of classes that nothing is made of: a byte each, and a text in memory.
    let class = [&b"C\x01kI\0\0\x10\0"[..], &[0; 4096], b"N"].concat();
    let classes = [&b"W"[..], &class.repeat(65), b"Z"].concat();
    assert!(matches!(Reader::new(&classes).value(), Err(ReadError::TooLarge(_))), "fields");
    // Something that is part of itself.
    assert_eq!(Reader::new(&[0x79, 0x51, 0x90]).value(), Ok(json!([null])));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z]{30,34}|x{1020,1030}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 10, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..10).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..6).prop_map(|members| members
                .into_iter()
                .filter(|(name, _)| name != "class")
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(value in any_json()) {
        let mut writer = Writer::default();
        writer.value(&value);
        let message = writer.into_bytes();
        let mut reader = Reader::new(&message);
        prop_assert_eq!(reader.value(), Ok(value));
        prop_assert!(reader.is_at_end());
    }

    #[test]
    fn no_bytes_break_the_reader(message in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Reader::new(&message).value();
    }
}

#[test]
fn long_texts_go_in_pieces_that_keep_pairs_together() {
    for text in ["x".repeat(32_769), format!("{}😀é", "x".repeat(32_767)), "😀".repeat(40_000)]
    {
        let mut writer = Writer::default();
        writer.text(&text);
        assert_eq!(Reader::new(&writer.into_bytes()).value(), Ok(json!(text)));
    }
}
