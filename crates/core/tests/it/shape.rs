//! The shape of the product's code as a test: import cycles between the siblings of a folder, type names that occur more
//! than once, structs with many fields, types whose methods are spread over many files, and test names that are
//! long or vague.
//!
//! The figures may only fall. A change that lowers one lowers its constant here; a change that raises one is refused.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, Item, ItemImpl, ItemMod, ItemUse, Type, UseTree, Visibility};

use super::workspace::{sources, tests};

/// The largest import cycle of each folder that has one over two: how many files and sub-folders reach each other.
const CYCLES: &[(&str, usize)] = &[
    ("core/acp", 5),
    ("core/engine/session", 3),
    ("core/machine", 3),
    ("core/model", 3),
    ("core/store", 3),
    ("core/store/import_acpx", 4),
    ("core/wire", 4),
];
/// How many names of module-level types are defined more than once in the workspace.
const HOMONYMS: usize = 0;
/// The most fields of a struct.
const FIELDS: usize = 19;
/// The most files that the inherent methods of one type are in.
const IMPL_FILES: usize = 5;

/// Words that do not say what was sent, rendered or persisted, or who did it.
const VAGUE_WORDS: &[&str] =
    &["told", "said", "nobody", "somebody", "whoever", "beside", "besides", "elsewhere", "meanwhile"];

/// A path of modules, beginning with the crate.
type Path = Vec<String>;

/// What one file of the product says about its shape.
#[derive(Default)]
struct Module {
    path: Path,
    /// Paths that it names, and whether it exports them again.
    names: Vec<(bool, Path)>,
    types: Vec<String>,
    /// Structs and how many fields they have.
    structs: Vec<(String, usize)>,
    /// Types that it has inherent methods of.
    impls: BTreeSet<String>,
    /// How many function bodies are around what is visited.
    depth: usize,
}

#[test]
fn import_cycles_only_get_smaller() {
    let mut found = BTreeMap::new();
    for package in ["core", "acpx", "testkit"] {
        found.extend(cycles(&modules(package)));
    }
    let expected: BTreeMap<_, _> =
        CYCLES.iter().map(|(folder, size)| ((*folder).to_owned(), *size)).collect();
    assert_eq!(found, expected);
}

#[test]
fn type_names_structs_and_impls_only_get_fewer_and_smaller() {
    let all: Vec<Module> = ["core", "acpx", "testkit"].into_iter().flat_map(modules).collect();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for name in all.iter().flat_map(|module| &module.types) {
        *names.entry(name).or_default() += 1;
    }
    let homonyms: Vec<_> = names.into_iter().filter(|(_, count)| *count > 1).collect();
    let widest = all.iter().flat_map(|module| &module.structs).max_by_key(|(_, fields)| *fields).unwrap();
    let mut impls: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for module in &all {
        for name in &module.impls {
            *impls.entry((&module.path[0], name)).or_default() += 1;
        }
    }
    let spread = impls.into_iter().max_by_key(|(_, files)| *files).unwrap();
    assert_eq!(
        (homonyms.len(), widest.1, spread.1),
        (HOMONYMS, FIELDS, IMPL_FILES),
        "{homonyms:?}\n{widest:?}\n{spread:?}"
    );
}

#[test]
fn test_names_have_at_most_twelve_words() {
    let long: Vec<String> = tests().into_iter().filter(|name| name.split('_').count() > 12).collect();
    assert_eq!(long, Vec::<String>::new());
}

#[test]
fn test_names_use_the_words_of_the_field() {
    let is_vague =
        |name: &String| name.starts_with("what_") || name.split('_').any(|word| VAGUE_WORDS.contains(&word));
    assert_eq!(tests().into_iter().filter(is_vague).collect::<Vec<String>>(), Vec::<String>::new());
}

/// The modules of a crate, without its tests.
fn modules(package: &str) -> Vec<Module> {
    let root = format!("crates/{package}/src/");
    sources(&root)
        .into_iter()
        .map(|(file, text)| {
            let mut module =
                Module { path: path_of(package, file.strip_prefix(&root).unwrap()), ..Module::default() };
            module.visit_file(&syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}")));
            module
        })
        .collect()
}

fn path_of(package: &str, file: &str) -> Path {
    let mut path: Path =
        [package].into_iter().chain(file.trim_end_matches(".rs").split('/')).map(str::to_owned).collect();
    path.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    path
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name): (&[Attribute], _) = match item {
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, None),
            Item::Impl(item) => (&item.attrs, None),
            _ => (&[], None),
        };
        if is_test(attributes) {
            return;
        }
        self.types.extend(name.filter(|_| self.depth == 0).map(ToString::to_string));
        if let Item::Struct(item) = item {
            self.structs.push((item.ident.to_string(), item.fields.len()));
        }
        visit::visit_item(self, item);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.depth += 1;
        visit::visit_block(self, block);
        self.depth -= 1;
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let (None, Type::Path(of)) = (&item.trait_, &*item.self_ty) {
            self.impls.extend(of.path.segments.last().map(|segment| segment.ident.to_string()));
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            let is_exported = !matches!(item.vis, Visibility::Inherited);
            let mut paths = Vec::new();
            expand(&item.tree, &mut Vec::new(), &mut paths);
            self.names.extend(paths.into_iter().map(|path| (is_exported, path)));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.names.push((false, path.segments.iter().map(|segment| segment.ident.to_string()).collect()));
        visit::visit_path(self, path);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.meta.require_list().is_ok_and(|list| {
            list.path.is_ident("cfg")
                && list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
        })
    })
}

fn expand(tree: &UseTree, prefix: &mut Path, paths: &mut Vec<Path>) {
    match tree {
        UseTree::Path(step) => {
            prefix.push(step.ident.to_string());
            expand(&step.tree, prefix, paths);
            prefix.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|item| expand(item, prefix, paths)),
        UseTree::Name(name) => paths.push(with(prefix, &name.ident.to_string())),
        UseTree::Rename(name) => paths.push(with(prefix, &name.ident.to_string())),
        UseTree::Glob(_) => paths.push(prefix.clone()),
    }
}

fn with(prefix: &[String], last: &str) -> Path {
    prefix.iter().cloned().chain([last.to_owned()]).collect()
}

/// The modules of one crate, and where names lead.
struct Tree {
    modules: BTreeSet<Path>,
    /// For each module, the names that it exports again and the module that each is from.
    exports: BTreeMap<Path, BTreeMap<String, Path>>,
}

impl Tree {
    /// The module that a path in `from` leads into, and what is left of the path there.
    fn resolve<'a>(&self, from: &Path, path: &'a [String]) -> Option<(Path, &'a [String])> {
        let (mut at, mut rest) = (from.clone(), path);
        match path.first()?.as_str() {
            "crate" => (at, rest) = (vec![from[0].clone()], &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|step| step == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            first if self.modules.contains(&with(from, first)) => {}
            _ => return None,
        }
        while let Some(step) = rest.first()
            && self.modules.contains(&with(&at, step))
        {
            at.push(step.clone());
            rest = &rest[1..];
        }
        Some((at, rest))
    }

    /// The module that defines what a path leads to.
    fn definer(&self, from: &Path, path: &[String]) -> Option<Path> {
        let (mut at, rest) = self.resolve(from, path)?;
        let mut seen = BTreeSet::new();
        while let Some(name) = rest.first()
            && let Some(next) = self.exports.get(&at).and_then(|exports| exports.get(name))
            && seen.insert(at.clone())
        {
            at.clone_from(next);
        }
        Some(at)
    }
}

/// Which modules of a crate use which others.
struct Imports {
    modules: BTreeSet<Path>,
    edges: BTreeSet<(Path, Path)>,
}

/// The arrows between the sub-folders of a folder, such as `core/engine`: each with those that it uses.
pub(crate) fn folder_arrows(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let folder: Path = folder.split('/').map(str::to_owned).collect();
    let imports = imports(&modules(&folder[0]));
    let depth = folder.len() + 1;
    let is_inside = |path: &&Path| path.len() > depth && path.starts_with(&folder);
    let mut arrows: BTreeMap<_, _> = imports
        .modules
        .iter()
        .filter(is_inside)
        .map(|path| (path[depth - 1].clone(), BTreeSet::new()))
        .collect();
    for (from, to) in sibling_edges(&folder, &imports.edges) {
        if arrows.contains_key(&to)
            && let Some(used) = arrows.get_mut(&from)
        {
            used.insert(to);
        }
    }
    arrows
}

fn imports(modules: &[Module]) -> Imports {
    let mut tree = Tree {
        modules: modules.iter().map(|module| module.path.clone()).collect(),
        exports: BTreeMap::new(),
    };
    for module in modules {
        let exports: BTreeMap<String, Path> = module
            .names
            .iter()
            .filter(|(is_exported, _)| *is_exported)
            .filter_map(|(_, path)| {
                let (at, rest) = tree.resolve(&module.path, path)?;
                Some((rest.first()?.clone(), at))
            })
            .collect();
        tree.exports.insert(module.path.clone(), exports);
    }
    let mut edges = BTreeSet::new();
    for module in modules {
        let named = module.names.iter().filter(|(is_exported, _)| !is_exported);
        edges.extend(
            named.filter_map(|(_, path)| Some((module.path.clone(), tree.definer(&module.path, path)?))),
        );
    }
    Imports { modules: tree.modules, edges }
}

/// The size of the largest cycle in each folder of a crate that has one of more than two.
fn cycles(modules: &[Module]) -> BTreeMap<String, usize> {
    let Imports { modules, edges } = imports(modules);
    let folders: BTreeSet<&[String]> =
        modules.iter().flat_map(|path| (1..path.len()).map(move |end| &path[..end])).collect();
    let sizes = folders.into_iter().map(|folder| (folder.join("/"), largest_cycle(folder, &edges)));
    sizes.filter(|(_, size)| *size > 2).collect()
}

/// The edges between two siblings of a folder, by their names.
fn sibling_edges(folder: &[String], edges: &BTreeSet<(Path, Path)>) -> Vec<(String, String)> {
    let depth = folder.len() + 1;
    let sibling =
        |path: &Path| (path.len() >= depth && path.starts_with(folder)).then(|| path[depth - 1].clone());
    let named = edges.iter().filter_map(|(from, to)| Some((sibling(from)?, sibling(to)?)));
    named.filter(|(from, to)| from != to).collect()
}

/// How many siblings of a folder reach each other at most.
fn largest_cycle(folder: &[String], edges: &BTreeSet<(Path, Path)>) -> usize {
    let mut reach: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in sibling_edges(folder, edges) {
        reach.entry(from).or_default().insert(to);
    }
    let siblings: Vec<String> = reach.keys().cloned().collect();
    for middle in &siblings {
        let beyond = reach[middle].clone();
        for reached in reach.values_mut().filter(|reached| reached.contains(middle)) {
            reached.extend(beyond.iter().cloned());
        }
    }
    let mutual = |one: &String, other: &String| reach[one].contains(other) && reach[other].contains(one);
    siblings.iter().map(|one| siblings.iter().filter(|other| mutual(one, other)).count()).max().unwrap_or(0)
}
