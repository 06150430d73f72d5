use super::super::style::StyledWriter;
use super::*;

/// A turn: its usage as the agent reported it, and its cost.
fn sum(turns: &[(&str, Option<(f64, &str)>)]) -> UsageSum {
    let mut sum = UsageSum::default();
    for (usage, cost) in turns {
        let cost = cost.and_then(|(amount, currency)| Money::of(amount, currency));
        sum.add_turn(TurnTokens::read(usage), cost);
    }
    sum
}

fn report(by: UsageBy, rows: Vec<(UsageLabel, UsageSum)>) -> UsageReport {
    let mut total = UsageSum::default();
    for (_, sum) in &rows {
        total.add(sum.clone());
    }
    let rows = rows.into_iter().map(|(label, sum)| UsageRow { label, sum }).collect();
    UsageReport { by, since: None, until: None, rows, left_out: 0, total }
}

const FULL: &str = r#"{"inputTokens":1200,"outputTokens":345,"cachedReadTokens":15000,"totalTokens":16545}"#;
const PARTS: &str = r#"{"inputTokens":12,"outputTokens":3}"#;

fn days() -> UsageReport {
    let day = |day: &str| UsageLabel::Day(day.to_owned());
    report(
        UsageBy::Day,
        vec![
            (day("2026-11-16"), sum(&[(FULL, Some((0.25, "USD"))), (FULL, Some((0.5, "USD")))])),
            (day("2026-11-17"), sum(&[(PARTS, Some((0.0035, "USD"))), ("{}", None)])),
            (day("2026-11-18"), sum(&[("{}", None)])),
        ],
    )
}

fn shown(report: &UsageReport, width: usize) -> String {
    let mut bytes = Vec::new();
    let mut out = StyledWriter::new(&mut bytes, Format::Text, true, false);
    table(report, Some(Path::new("/home/ada")), width).write(width, &mut out).unwrap();
    drop(out);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn usage_table_fits_usual_wide_and_narrow_terminals() {
    insta::assert_snapshot!(shown(&days(), 80), @r"
    DAY         TURNS  INPUT  OUTPUT  CACHED  TOKENS        COST
    2026-11-16      2   2.4k     690     30k     33k      ~$0.75  ██████████████████
    2026-11-17      2     12       3           ~15+?  ~$0.0035+?  ▏
    2026-11-18      1                              ?           ?
    total           5   2.4k     693     30k  ~33k+?    ~$0.75+?
    ");
    insta::assert_snapshot!(shown(&days(), 200), @r"
    DAY         TURNS  INPUT  OUTPUT  CACHED  TOKENS        COST
    2026-11-16      2   2.4k     690     30k     33k      ~$0.75  ████████████████████████████████████████
    2026-11-17      2     12       3           ~15+?  ~$0.0035+?  ▏
    2026-11-18      1                              ?           ?
    total           5   2.4k     693     30k  ~33k+?    ~$0.75+?
    ");
    insta::assert_snapshot!(shown(&days(), 40), @r"
    DAY         TURNS  TOKENS        COST
    2026-11-16      2     33k      ~$0.75
    2026-11-17      2   ~15+?  ~$0.0035+?
    2026-11-18      1       ?           ?
    total           5  ~33k+?    ~$0.75+?
    ");
}

#[test]
fn usage_by_session_and_project_names_them_and_never_adds_currencies() {
    let session = |name: Option<&str>, id: &str| UsageLabel::Session {
        record: RecordId::new(id).unwrap(),
        short_id: id.to_owned(),
        agent: "claude".to_owned(),
        name: name.map(str::to_owned),
        title: Some("Find the bug".to_owned()),
    };
    let sessions = report(
        UsageBy::Session,
        vec![
            (session(Some("mend\u{1b}[2J the roof"), "019a5f3c"), sum(&[(FULL, Some((1.0, "USD")))])),
            (session(None, "019a5f3d"), sum(&[(FULL, Some((2.0, "EUR")))])),
        ],
    );
    insta::assert_snapshot!(shown(&sessions, 80), @r"
    SESSION        ID        TURNS  INPUT  OUTPUT  CACHED  TOKENS               COST
    mend[2J the …  019a5f3c      1   1.2k     345     15k     17k             ~$1.00
    Find the bug   019a5f3d      1   1.2k     345     15k     17k          ~2.00 EUR
    total                        2   2.4k     690     30k     33k  ~2.00 EUR + $1.00
    ");
    let project = |cwd: &str| UsageLabel::Project(cwd.to_owned());
    let projects = report(
        UsageBy::Project,
        vec![(project("/home/ada/src/roof"), sum(&[(FULL, None)])), (project("/srv"), sum(&[(PARTS, None)]))],
    );
    insta::assert_snapshot!(shown(&projects, 80), @r"
    PROJECT     TURNS  INPUT  OUTPUT  CACHED  TOKENS  COST
    ~/src/roof      1   1.2k     345     15k     17k     ?  ████████████████████████
    /srv            1     12       3             ~15     ?  ▏
    total           2   1.2k     348     15k    ~17k     ?
    ");
}

#[test]
fn usage_notes_explain_the_marks() {
    assert_eq!(
        notes(&UsageReport { left_out: 3, ..days() }),
        [
            "3 more rows are in the total: --limit N shows more",
            "~ derived from what the agent reports for its session",
            "? tokens of 2 of 5 turns are unknown",
            "? cost of 2 of 5 turns is unknown",
        ]
    );
}

#[test]
fn usage_in_a_pipe_has_a_line_of_columns_for_each_row() {
    let lines: Vec<String> = days().rows.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "2026-11-16\t2\t0\t2400\t690\t30000\t33090\t0\t0.75 USD\treported\tderived",
            "2026-11-17\t2\t1\t12\t3\t-\t15\t1\t0.0035 USD\tderived\tderived",
            "2026-11-18\t1\t1\t-\t-\t-\t-\t1\t-\tunknown\tunknown",
        ]
    );
}

#[test]
fn usage_object_has_the_source_of_every_figure() {
    let json = serde_json::to_string(&object(&days())).unwrap();
    assert_eq!(
        json,
        concat!(
            r#"{"action":"usage","by":"day","rows":["#,
            r#"{"day":"2026-11-16","turns":2,"tokens":{"source":"reported","unknownTurns":0,"total":33090,"input":2400,"output":690,"cachedRead":30000},"cost":{"source":"derived","unknownTurns":0,"amounts":[{"amount":0.75,"currency":"USD"}]}},"#,
            r#"{"day":"2026-11-17","turns":2,"tokens":{"source":"derived","unknownTurns":1,"total":15,"input":12,"output":3},"cost":{"source":"derived","unknownTurns":1,"amounts":[{"amount":0.0035,"currency":"USD"}]}},"#,
            r#"{"day":"2026-11-18","turns":1,"tokens":{"source":"unknown","unknownTurns":1},"cost":{"source":"unknown","unknownTurns":1}}],"#,
            r#""total":{"turns":5,"tokens":{"source":"derived","unknownTurns":2,"total":33105,"input":2412,"output":693,"cachedRead":30000},"cost":{"source":"derived","unknownTurns":2,"amounts":[{"amount":0.7535,"currency":"USD"}]}}}"#,
        )
    );
}

#[test]
fn token_counts_have_at_most_three_digits() {
    let cases = [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (9_949, "9.9k"),
        (9_950, "10k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_234_567_890, "1.2G"),
        (u64::MAX, "18447P"),
    ];
    for (count, text) in cases {
        assert_eq!(compact(count), text, "{count}");
    }
}

proptest::proptest! {
    #[test]
    fn usage_bars_grow_with_the_value_and_fit(value in 0_u64..=1_000_000, most in 1_u64..=1_000_000, room in 4_usize..40) {
        let value = value.min(most);
        let width = super::super::table::width_of(&bar(value, most, room));
        proptest::prop_assert!(width <= room);
        proptest::prop_assert_eq!(width > 0, value > 0);
    }
}
