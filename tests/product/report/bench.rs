//! Times of the pipeline in every form, from a handwritten table.

use std::collections::BTreeMap;

use sm121probe::bench;
use sm121probe::frame::family::Family as _;
use sm121probe::moe::Stage;
use sm121probe::moe::family::MOE;
use sm121probe::record::{BenchRow, BenchTable, CodeBy, DecodeRow, DeviceRow, RateRow, SCHEMA};
use sm121probe::report;

fn row(tile: &str, path: &str, tokens: usize, stage: Stage, microseconds: f64) -> BenchRow {
    let rest = if path == "gemv" { "gemv direct".to_owned() } else { format!("swap_ab {path} tma") };
    BenchRow {
        configuration: format!("{tile} {rest}").into(),
        tokens,
        experts: 4 * tokens,
        stage: stage.into(),
        microseconds,
        range: [0.5 * microseconds, 2.0 * microseconds],
        bytes: 1000,
        weights: 900,
        operations: 10,
        multiplied: 80,
        of_bandwidth: 0.625,
        of_rate: (path != "gemv").then_some(0.25),
    }
}

/// A tile of 8 that is fastest for one token, one of 16 that is fastest for four, and a GEMV that is fastest for one.
fn table() -> BenchTable {
    let mut rows = Vec::new();
    for (tile, path, times) in [
        ("8x64x128", "portable", [10.0, 40.0]),
        ("16x64x128", "portable", [15.0, 20.0]),
        ("8x64x128", "gemv", [4.0, 100.0]),
    ] {
        for (tokens, time) in [1, 4].into_iter().zip(times) {
            rows.push(row(tile, path, tokens, Stage::Quantize, 1.5));
            rows.push(row(tile, path, tokens, Stage::Fc1, 0.75 * time));
            rows.push(row(tile, path, tokens, Stage::Fc2, 0.25 * time));
        }
    }
    // Two experts with one row each, then with four: policies choose tiles of 8, 16 and more.
    let counts = BTreeMap::from([(1, vec![1, 1, 0, 0]), (4, vec![4, 4, 0, 0])]);
    BenchTable {
        schema: SCHEMA,
        family: MOE.name().to_owned(),
        tool: "sm121probe 0.0.0".to_owned(),
        device: DeviceRow {
            device: "gpu:0".to_owned(),
            name: "NVIDIA <Test>".to_owned(),
            architecture: "sm_90".to_owned(),
            driver: "580.1".to_owned(),
            cuda: "13.0".to_owned(),
            multiprocessors: 132,
            memory: 1 << 36,
            l2: 1 << 25,
            id: String::new(),
        },
        target: "sm_90a".into(),
        code: CodeBy::from("ptxas 13.5.37"),
        dimensions: "made-up".to_owned(),
        sizes: [64, 32, 4, 2],
        routing: "random".to_owned(),
        warm_up: 5,
        samples: 20,
        flushed: 1 << 26,
        bandwidth: 3.0e12,
        rates: vec![RateRow {
            path: "portable".to_owned(),
            instruction: "mma.sync m16n8k16 bf16".to_owned(),
            operations: 6.0e14,
        }],
        regrets: bench::regrets(&rows, &counts, 2),
        rows,
        decodes: vec![DecodeRow {
            configuration: "decode d128 bf16".into(),
            stage: "partials".into(),
            batch: 8,
            keys: 32_768,
            splits: 17,
            microseconds: 500.0,
            range: [400.0, 600.0],
            bytes: 1_200_000_000,
            of_bandwidth: 0.8,
            plain_read: Some(450.0),
        }],
    }
}

#[test]
fn tables_say_who_is_fastest_and_what_policies_cost() {
    let md = report::bench_markdown(&table());
    for words in [
        "made-up: hidden 64, inter 32, 4 experts, 2 of a token",
        "Median of 20 rounds after 5",
        "- peak read bandwidth: 3000 GB/s (measured)",
        "- mma.sync m16n8k16 bf16: peak rate 600 tera-operations per second (measured)",
        "|`8x64x128 swap_ab portable tma`|10.0|40.0|",
        "|`16x64x128 swap_ab portable tma`|15.0|20.0|",
        "|`8x64x128 gemv direct`|4.00|100|",
        // The fastest for each batch, with all its stages.
        "|1|4|`8x64x128 gemv direct`|1.50|3.00|1.00|5.50|",
        "|4|16|`16x64x128 swap_ab portable tma`|1.50|15.0|5.00|21.5|",
        "|1|`8x64x128 swap_ab portable tma`|10.0|`8x64x128 gemv direct`|4.00|0.40|",
        "|4|`16x64x128 swap_ab portable tma`|20.0|`8x64x128 gemv direct`|100|5.00|",
        // Eight rows are optimal for one token, and take twice the time for four; a tile that was not timed has no regret.
        "|portable|`threshold`|0 % (8)|100 % (8)|50 %|",
        "|portable|`two_tiles`|50 % (16)|0 % (16)|25 %|",
        "|portable|`select_tile_mn_for_sm120`|– (64)|– (64)|–|",
        "|`decode d128 bf16`|8|32768|17|500|2400|80 %|",
    ] {
        assert!(md.contains(words), "{words}\n{md}");
    }
}

#[test]
fn csv_holds_every_time_and_json_reads_back() {
    let table = table();
    let csv = report::bench_csv(&table);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), table.rows.len() + table.decodes.len());
    let line = "decode d128 bf16,8,,partials,500.000,400.000,600.000,1200000000,,,,0.8000,";
    assert!(csv.lines().any(|l| l == line), "{csv}");
    let line = "8x64x128 swap_ab portable tma,1,4,fc1,7.500,3.750,15.000,1000,900,10,80,0.6250,0.2500";
    assert!(csv.lines().any(|l| l == line), "{csv}");
    let json = table.to_json().unwrap();
    assert_eq!(BenchTable::parse(&json).unwrap(), table);
}

#[test]
fn the_plot_has_a_line_for_each_kernel_and_stays_in_its_frame() {
    let svg = report::bench_svg(&table());
    assert_eq!(svg.matches("<polyline").count(), 3);
    assert!(svg.contains("NVIDIA &lt;Test&gt;") && svg.ends_with("</svg>\n"), "{svg}");
    // Slower is higher: y counts downwards.
    let of = |n: usize| -> Vec<(f64, f64)> {
        let points = svg.split("<polyline points=\"").nth(n + 1).unwrap().split('"').next().unwrap();
        let pair =
            |p: &str| p.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).unwrap();
        points.split(' ').map(pair).collect()
    };
    let (eight, gemv) = (of(0), of(2));
    assert!(
        eight[0].1 > eight[1].1 && gemv[0].1 > eight[0].1 && gemv[1].1 < eight[1].1,
        "{eight:?} {gemv:?}"
    );
    assert_eq!(eight[0].0, gemv[0].0);
    for (x, y) in (0..3).flat_map(of) {
        assert!((70.0..=640.0).contains(&x) && (40.0..=580.0).contains(&y), "{x} {y}");
    }
    // Without times, only the axes.
    let empty = report::bench_svg(&BenchTable { rows: Vec::new(), ..table() });
    assert!(!empty.contains("NaN") && !empty.contains("inf") && !empty.contains("<polyline"), "{empty}");
}
