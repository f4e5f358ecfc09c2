use super::ptx;
use crate::ptx::program::Layout;

fn error(text: &str) -> String {
    let failed = Layout::new([text]).and_then(|layout| layout.program(0));
    failed.expect_err("the text is wrong").to_string()
}

#[test]
fn broken_text_names_its_line() {
    let log = error(ptx!("broken"));
    assert!(log.contains("line 17; error   : Unknown symbol '%r9'"), "{log}");
    assert!(log.ends_with("ptxas fatal   : Ptx assembly aborted due to errors"), "{log}");
}

#[test]
fn a_missing_part_is_reported() {
    let kernel = |body: &str| format!(".version 8.0\n.target sm_75\n.address_size 64\n.entry k() {{\n{body}\n}}\n");
    assert!(error("nonsense").contains("Missing .version directive"));
    assert!(error(&kernel("bra nowhere;")).contains("Label 'nowhere' not defined"));
    assert!(error(&kernel(".reg .u32 %a; add.u32 %a, %a;")).contains("Arguments mismatch for instruction 'add.u32'"));
    assert!(error(&kernel("add.u32 1 2").replace(';', "")).contains("syntax error"));
    assert!(error(".version 8.0\n.target sm_75\n.address_size 32\n").contains("not simulated: .address_size 32"));
    assert!(error(ptx!("link_main")).contains("Unknown symbol 'weight'"));
}
