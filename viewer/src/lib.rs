//! The timeline in the terminal. Nothing is here yet: `cutrace dump` and `cutrace info` show a trace meanwhile.
