//! Command lines, quoted for a shell, for people to copy.

/// A command line that a shell would read as it was.
pub fn shell(words: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    let quoted = words.iter().map(|word| match word.as_str() {
        "" => "''".into(),
        word if word.chars().all(is_plain) => word.to_string(),
        word if word.contains(char::is_control) => format!("$'{}'", word.chars().map(ansi_c).collect::<String>()),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// A character as it stands within `$'...'`.
fn ansi_c(c: char) -> String {
    match c {
        '\'' | '\\' => format!("\\{c}"),
        '\n' => "\\n".into(),
        '\t' => "\\t".into(),
        c if c.is_control() => format!("\\u{:04x}", c as u32),
        c => c.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_given_to_a_shell() {
        let words = ["a b", "it's", "", "\x1b[31mit's\n"].map(String::from);
        assert_eq!(shell(&words), r"'a b' 'it'\''s' '' $'\u001b[31mit\'s\n'");
    }
}
