//! A lens on one object: only events that name it pass.

use super::fields::State;
use super::filter::Filter;
use crate::data::lives::{Life, Lives};
use crate::text::counted;

/// `stream#3`, without the name that a function has besides.
fn plain(lives: &Lives, life: &Life) -> String {
    lives.title(life).split(':').next().unwrap_or_default().into()
}

impl State {
    /// Lets pass only what names an object; the timeline dims the rest.
    pub(crate) fn look_through(&mut self, title: &str) {
        let text = format!("uses:{title}");
        match Filter::new(&text, &self.opened) {
            Ok(filter) => {
                let told = self.opened.lives().and_then(|lives| {
                    let life = lives.titled(title)?;
                    let late = crate::data::uses::uses(&self.opened, lives, life).ok()?.after;
                    let count = counted(filter.count, "call");
                    Some(match late.as_slice() {
                        [] => format!("{title}: {count}; esc clears the filter"),
                        [first, ..] => {
                            format!("{title}: {count}, {} after its end, the first call {first}", late.len())
                        }
                    })
                });
                self.filter = Some(filter);
                told.into_iter().for_each(|told| self.say(told));
            }
            Err(wrong) => self.say(wrong),
        }
    }

    /// Looks through the objects that the current call names, one after the other.
    pub(crate) fn lens(&mut self) {
        let Some((lane, event)) = self.current() else { return self.say("no event under the cursor") };
        let opened = self.whose(lane);
        let Some(lives) = opened.lives() else { return self.say("object names are still being read") };
        let titles: Vec<String> = opened.objects_of(event.call).iter().map(|life| plain(lives, life)).collect();
        let now = self.filter.as_ref().and_then(|filter| filter.text.strip_prefix("uses:"));
        let next = now.and_then(|now| titles.iter().position(|title| title == now)).map_or(0, |at| at + 1);
        match titles.get(next) {
            Some(title) => self.look_through(&title.clone()),
            None if titles.is_empty() => self.say("this call uses no object that the trace created"),
            None => {
                self.filter = None;
                self.say("filter cleared");
            }
        }
    }
}
