//! A bounded map by id: it keeps the newest entries, so that no peer can make it grow.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use crate::model::sha256_hex;

/// Longer ids are stored as their digest.
const MAX_ID_BYTES: usize = 256;

/// Values by id. When the map is full, the oldest entry is evicted.
#[derive(Debug, Default)]
pub struct RecentMap<V, const LIMIT: usize> {
    values: HashMap<Box<str>, V>,
    order: VecDeque<Box<str>>,
    has_forgotten: bool,
}

impl<V: Default, const LIMIT: usize> RecentMap<V, LIMIT> {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.values.contains_key(&*key(id))
    }

    /// The value of an id.
    pub fn get(&self, id: &str) -> Option<&V> {
        self.values.get(&*key(id))
    }

    /// The value of an id. Inserts a default, and evicts the oldest entry if the map is full.
    pub(super) fn entry(&mut self, id: &str) -> &mut V {
        let key = key(id);
        if !self.values.contains_key(&*key) {
            if self.order.len() >= LIMIT
                && let Some(oldest) = self.order.pop_front()
            {
                self.values.remove(&oldest);
                self.has_forgotten = true;
            }
            self.order.push_back(Box::from(&*key));
        }
        self.values.entry(key.into()).or_default()
    }

    /// The same, and makes it the newest entry.
    pub fn touch(&mut self, id: &str) -> &mut V {
        let key = key(id);
        if let Some(index) = self.order.iter().position(|known| **known == *key) {
            let known = self.order.remove(index);
            self.order.extend(known);
        }
        self.entry(id)
    }

    /// Whether an entry was evicted, so that a missing id may have been present before.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    /// All values, mutable, in no particular order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.values.values_mut()
    }

    /// All values, oldest first.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.order.iter().filter_map(|id| self.values.get(id))
    }

    pub(super) fn remove(&mut self, id: &str) {
        let key = key(id);
        self.values.remove(&*key);
        self.order.retain(|known| **known != *key);
    }
}

fn key(id: &str) -> Cow<'_, str> {
    if id.len() <= MAX_ID_BYTES {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("sha256:{}", sha256_hex(id.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_map_evicts_the_oldest_and_hashes_long_ids() {
        let mut recent = RecentMap::<u8, 2>::default();
        let long = "x".repeat(1000);
        *recent.entry("a") = 1;
        *recent.entry(&long) = 2;
        *recent.entry(&long) += 1;
        *recent.entry("b") = 4;
        assert!(!recent.contains("a") && recent.has_forgotten());
        assert_eq!(recent.values().copied().collect::<Vec<_>>(), [3, 4]);
        assert!(recent.order.iter().all(|key| key.len() < 80));
        recent.remove(&long);
        assert_eq!(recent.values().copied().collect::<Vec<_>>(), [4]);
        *recent.touch("c") = 5;
        *recent.touch("b") += 1;
        recent.touch("d");
        assert_eq!(recent.values().copied().collect::<Vec<_>>(), [5, 0]);
    }
}
