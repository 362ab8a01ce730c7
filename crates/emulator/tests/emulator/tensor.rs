//! Tensor copies against recordings of an H100 (driver 580, `cuTensorMapEncodeTiled`), and what no Hopper chip has.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use emulator::{
    GlobalMemory, Interleave, L2Promotion, Launch, MapRule, OobFill, Options, Rule, Stop, Swizzle, TensorMap,
    TensorType, launch, load,
};
use serde_json::Value;

const HEADER: &str = ".version 9.0\n.target sm_121a\n.address_size 64\n";
const WINDOW: usize = 16384;
const BUFFER: usize = 1 << 18;

/// The byte that the recordings have at place `i`.
fn byte(i: usize) -> u8 {
    (((i as u64).wrapping_mul(2_654_435_761) + (i as u64 >> 3) * 40503) >> 13) as u8
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

fn recordings() -> Vec<Value> {
    include_str!("../tensor/h100.jsonl").lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Boxes of interleaved tensors; element strides there hold for the first dimension too.
fn interleaved() -> Vec<Value> {
    include_str!("../tensor/interleaved_h100.jsonl")
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap()
}

/// The map of a recording; none where it has codes that no map has.
fn map_of(v: &Value, address: u64) -> Option<TensorMap> {
    let list = |name: &str| -> Vec<u64> { v[name].as_array().unwrap().iter().map(number).collect() };
    let at = |list: &[u64], i: usize, other: u64| list.get(i).copied().unwrap_or(other);
    let (dims, strides, boxes, es) = (list("dims"), list("strides"), list("box"), list("es"));
    Some(TensorMap {
        data_type: TensorType::from_code(number(&v["type"]))?,
        rank: number(&v["rank"]) as usize,
        address,
        dims: std::array::from_fn(|i| at(&dims, i, 1)),
        strides: std::array::from_fn(|i| at(&strides, i, 0)),
        box_dims: std::array::from_fn(|i| at(&boxes, i, 1) as u32),
        element_strides: std::array::from_fn(|i| at(&es, i, 1) as u32),
        interleave: Interleave::from_code(number(&v["inter"]))?,
        swizzle: Swizzle::from_code(number(&v["swz"]))?,
        l2_promotion: L2Promotion::from_code(number(&v["l2"]))?,
        oob_fill: OobFill::from_code(number(&v["fill"]))?,
        im2col: None,
    })
}

/// A kernel that fills shared memory from `p_in`, runs `copy` in one thread and gives shared memory back in `p_out`.
fn kernel(copy: &str) -> String {
    format!(
        "{HEADER}.extern .shared .align 1024 .b8 dyn[];
.visible .entry k(.param .align 64 .b8 tm[128], .param .u64 p_in, .param .u64 p_out, .param .u32 p_off, \
         .param .u32 p_tx, .param .align 4 .b8 p_c[20])
{{
.reg .b64 tmp, in, out, a; .reg .b32 t, off, tx, c<5>, i, v, s, base; .reg .pred p;
.shared .align 8 .b64 bar;
ld.param.u64 in,[p_in]; ld.param.u64 out,[p_out]; ld.param.u32 off,[p_off]; ld.param.u32 tx,[p_tx];
ld.param.u32 c0,[p_c]; ld.param.u32 c1,[p_c+4]; ld.param.u32 c2,[p_c+8]; ld.param.u32 c3,[p_c+12];
ld.param.u32 c4,[p_c+16];
mov.b64 tmp, tm; cvta.param.u64 tmp, tmp;
mov.u32 t, %tid.x; mov.u32 base, dyn; mov.u32 i, t;
F: setp.ge.u32 p, i, 4096; @p bra FD; shl.b32 s, i, 2; cvt.u64.u32 a, s; add.u64 a, a, in;
ld.global.u32 v, [a]; add.u32 s, s, base; st.shared.u32 [s], v; add.u32 i, i, 128; bra F;
FD: fence.proxy.async; bar.sync 0;
setp.ne.u32 p, t, 0; @p bra W;
add.u32 s, base, off;
{copy}
W: bar.sync 0;
mov.u32 i, t;
O: setp.ge.u32 p, i, 4096; @p bra OD; shl.b32 s, i, 2; cvt.u64.u32 a, s; add.u64 a, a, out; add.u32 s, s, base;
ld.shared.u32 v, [s]; st.global.u32 [a], v; add.u32 i, i, 128; bra O;
OD: ret;
}}"
    )
}

const WAIT: &str = "S: mbarrier.try_wait.parity.shared.b64 p, [bar], 0; @!p bra S;";

fn coordinates(rank: usize) -> String {
    (0..rank).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",")
}

fn load_text(rank: usize, mode: &str, coordinates: &str) -> String {
    kernel(&format!(
        "mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], tx;
cp.async.bulk.tensor.{rank}d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes [s], [tmp, {{{coordinates}}}], [bar];
{WAIT}"
    ))
}

fn store_text(rank: usize, op: Option<&str>) -> String {
    let (name, op) = match op {
        Some(op) => ("cp.reduce", format!(".{op}")),
        None => ("cp", String::new()),
    };
    kernel(&format!(
        "{name}.async.bulk.tensor.{rank}d.global.shared::cta{op}.tile.bulk_group [tmp, {{{}}}], [s];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        coordinates(rank)
    ))
}

/// Runs a kernel of above on one CTA; shared memory afterwards.
fn run(
    text: &str,
    map: [u8; 128],
    input: &[u8],
    off: u64,
    tx: u64,
    c: &[i64],
    memory: &mut GlobalMemory,
) -> Result<Vec<u8>, Stop> {
    let program = load(text)?;
    let from = memory.allocate_with(input.to_vec());
    let out = memory.allocate(WINDOW);
    let mut params = map.to_vec();
    params.extend(from.to_le_bytes());
    params.extend(out.to_le_bytes());
    params.extend((off as u32).to_le_bytes());
    params.extend((tx as u32).to_le_bytes());
    for i in 0..5 {
        params.extend((c.get(i).copied().unwrap_or(0) as i32).to_le_bytes());
    }
    let how = Launch { grid: [1, 1, 1], block: [128, 1, 1], shared_bytes: WINDOW as u32, params };
    launch(&program, program.kernel("k").unwrap(), &how, memory, &Options::default())?;
    Ok(memory.bytes(out).unwrap().to_vec())
}

fn rule<T: std::fmt::Debug>(result: Result<T, Stop>) -> Rule {
    match result {
        Err(Stop::Trap(trap)) => trap.rule,
        other => panic!("no trap: {other:?}"),
    }
}

#[test]
fn the_driver_takes_no_map_that_is_refused_nowhere_and_the_other_way() {
    let mut stricter = 0;
    for v in recordings().iter().filter(|v| v["kind"] == "rule") {
        let map = map_of(v, 0x10_0000_0000 + number(&v["address"]));
        // An H100 has neither packed types nor atoms other than 16 bytes.
        let hopper = map.is_some_and(|m| m.data_type.bits() >= 8 && number(&v["swz"]) < 4);
        let ours = map.filter(|_| hopper).is_some_and(|m| m.encode().is_ok());
        let theirs = v["ok"] == true;
        if ours != theirs {
            // The driver's own documentation forbids what it takes here.
            assert!(theirs && v["inter"] == 2 && v["swz"] != 1, "{v}");
            stricter += 1;
        }
    }
    assert_eq!(stricter, 10);
}

#[test]
fn loads_do_what_an_h100_did() {
    assert_eq!(loads(&recordings()), 500);
    assert!(loads(&interleaved()) > 140);
}

/// How many loads agree; one that does not is named.
fn loads(recordings: &[Value]) -> usize {
    let buffer: Vec<u8> = (0..BUFFER).map(byte).collect();
    let mut same = 0;
    for v in recordings.iter().filter(|v| v["kind"] == "load") {
        let mut memory = GlobalMemory::default();
        let base = memory.allocate_with(buffer.clone());
        let map = map_of(v, base).unwrap();
        let c: Vec<i64> = v["c"].as_array().unwrap().iter().map(|c| c.as_i64().unwrap()).collect();
        let text = load_text(map.rank, "tile", &coordinates(map.rank));
        let tx = map.transaction_bytes();
        let got = run(&text, map.encode().unwrap(), &[0xCD; WINDOW], number(&v["off"]), tx, &c, &mut memory);
        if v["trap"] == true {
            assert_eq!(rule(got), Rule::TensorMap, "{v}");
        } else {
            assert_eq!(tx, number(&v["tx"]));
            let got = got.unwrap_or_else(|stop| panic!("{stop}\n{v}"));
            assert_eq!(format!("{:016x}", fnv(&got)), v["hash"].as_str().unwrap(), "{v}");
            same += 1;
        }
    }
    same
}

#[test]
fn stores_and_reductions_do_what_an_h100_did() {
    let (same, traps) = stores(&recordings());
    assert!(same > 280 && traps > 50, "{same} {traps}");
    let (same, traps) = stores(&interleaved());
    assert!(same > 110 && traps >= 5, "{same} {traps}");
}

/// How many stores and reductions agree, and how many are traps there and here.
fn stores(recordings: &[Value]) -> (usize, usize) {
    let buffer: Vec<u8> = (0..BUFFER).map(byte).collect();
    let input: Vec<u8> = (0..WINDOW).map(|i| byte(7 * i + 3)).collect();
    let (mut same, mut traps) = (0, 0);
    for v in recordings.iter().filter(|v| v["kind"] == "store") {
        let mut memory = GlobalMemory::default();
        let base = memory.allocate_with(buffer.clone());
        let map = map_of(v, base).unwrap();
        let c: Vec<i64> = v["c"].as_array().unwrap().iter().map(|c| c.as_i64().unwrap()).collect();
        let text = store_text(map.rank, v["op"].as_str());
        let got = run(&text, map.encode().unwrap(), &input, number(&v["off"]), 0, &c, &mut memory);
        if v["trap"] == true {
            assert_eq!(rule(got), Rule::TensorMap, "{v}");
            traps += 1;
            continue;
        }
        got.unwrap_or_else(|stop| panic!("{stop}\n{v}"));
        let bytes = memory.bytes(base).unwrap();
        assert_eq!(format!("{:016x}", fnv(&bytes[..131_072])), v["hash"].as_str().unwrap(), "{v}");
        same += 1;
    }
    (same, traps)
}

#[test]
fn four_rows_are_scattered_where_they_would_be_gathered_from() {
    let scatter = kernel(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [tmp, {c0,c1,c2,c3,c4}], [s];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    )
    .replace("sm_121a", "sm_100a");
    let gather = load_text(2, "tile::gather4", "c0,c1,c2,c3,c4");
    for swizzle in [Swizzle::None, Swizzle::B64, Swizzle::B128] {
        let rows = [5i64, 2, 31, 9];
        let c = [8, rows[0], rows[1], rows[2], rows[3]];
        let mut memory = GlobalMemory::default();
        let base = memory.allocate_with(vec![0; 64 * 32 * 2]);
        let map = TensorMap { swizzle, ..TensorMap::dense(TensorType::U16, base, &[64, 32], &[16, 1]) };
        let bytes = map.encode().unwrap();
        let input: Vec<u8> = (0..WINDOW).map(byte).collect();
        run(&scatter, bytes, &input, 128, 0, &c, &mut memory).unwrap();
        let there = memory.bytes(base).unwrap().to_vec();
        // Only those rows have changed, and a gather brings back what was scattered.
        let changed: Vec<i64> =
            (0..32).filter(|r| there[*r as usize * 128..][..128].iter().any(|b| *b != 0)).collect();
        assert_eq!(changed, [2, 5, 9, 31]);
        let got = run(&gather, bytes, &[0xCD; WINDOW], 128, 128, &c, &mut memory).unwrap();
        let kept = got.iter().zip(&input).filter(|(g, i)| **g != 0xCD && g == i).count();
        assert!((126..=128).contains(&kept), "{swizzle:?}: {kept}");
        // Rows outside the tensor are left out, and negative ones are traps.
        run(&scatter, bytes, &input, 128, 0, &[8, 99, 2, 31, 9], &mut memory).unwrap();
        assert_eq!(
            rule(run(&scatter, bytes, &input, 128, 0, &[8, -1, 2, 31, 9], &mut memory)),
            Rule::TensorMap
        );
    }
    let tall = TensorMap::dense(TensorType::U16, 0x10_0000_0000, &[64, 32], &[16, 2]);
    let mut memory = GlobalMemory::default();
    memory.allocate_with(vec![0; 64 * 32 * 2]);
    let got = run(&scatter, tall.encode().unwrap(), &[1; WINDOW], 128, 0, &[0, 0, 1, 2, 3], &mut memory);
    assert_eq!(rule(got), Rule::TensorMap);
}

#[test]
fn reductions_of_types_that_have_none_are_traps() {
    for v in recordings().iter().filter(|v| v["kind"] == "optype") {
        let mut memory = GlobalMemory::default();
        let base = memory.allocate_with(vec![0; 1024]);
        let map = map_of(v, base).unwrap();
        let got = run(
            &store_text(2, v["op"].as_str()),
            map.encode().unwrap(),
            &[0; WINDOW],
            0,
            0,
            &[0, 0],
            &mut memory,
        );
        assert_eq!(got.is_ok(), v["ok"] == true, "{v}: {:?}", got.err());
    }
}

#[test]
fn reductions_of_special_values_do_what_an_h100_did() {
    for line in include_str!("../tensor/reduce_h100.jsonl").lines() {
        let v: Value = serde_json::from_str(line).unwrap();
        let (op, ty) = (v["op"].as_str().unwrap(), v["type"].as_str().unwrap_or("f32"));
        let size = match ty {
            "f16" | "bf16" => 2,
            "f64" | "u64" | "s64" | "b64" => 8,
            _ => 4,
        };
        let bytes = |name: &str| -> Vec<u8> {
            let words = v[name].as_array().unwrap().iter();
            let words = words.map(|w| u64::from_str_radix(w.as_str().unwrap(), 16).unwrap());
            words.flat_map(|w| w.to_le_bytes()[..size].to_vec()).collect()
        };
        let (old, new, want) = (bytes("old"), bytes("new"), bytes("got"));
        let mut memory = GlobalMemory::default();
        let base = memory.allocate_with(old.clone());
        let mut input = new.clone();
        input.resize(WINDOW, 0);
        let done = if let Some(code) = v["tensor"].as_u64() {
            let map = TensorMap::dense(TensorType::from_code(code).unwrap(), base, &[256], &[256]);
            run(&store_text(1, Some(op)), map.encode().unwrap(), &input, 0, 0, &[0], &mut memory)
        } else {
            let exact = if op == "add" && size == 2 { ".noftz" } else { "" };
            let text = kernel(&format!(
                "cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}{exact}.{ty} [a], [base], tx;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
            ))
            .replace("add.u32 s, base, off;", "ld.param.u64 a, [tm];");
            let mut place = [0; 128];
            place[..8].copy_from_slice(&base.to_le_bytes());
            run(&text, place, &input, 0, old.len() as u64, &[], &mut memory)
        };
        done.unwrap_or_else(|stop| panic!("{op}.{ty}: {stop}"));
        let got = memory.bytes(base).unwrap();
        for (i, (g, w)) in got.chunks(size).zip(want.chunks(size)).enumerate() {
            let (o, n) = (&old[i * size..][..size], &new[i * size..][..size]);
            assert_eq!(g, w, "{op}.{ty} {} of {o:x?} and {n:x?}, an H100 gives {w:x?}", v["tensor"]);
        }
    }
}

#[test]
fn packed_types_leave_their_gaps_alone() {
    for (ty, swizzle) in [
        (TensorType::U4Align8, Swizzle::B64),
        (TensorType::U4Align16, Swizzle::None),
        (TensorType::U4Align16, Swizzle::B128),
        (TensorType::U4Align16, Swizzle::B128Atom32),
        (TensorType::U6Align16, Swizzle::B128),
    ] {
        let mut memory = GlobalMemory::default();
        let row = 256 * ty.bits() as usize / 8;
        let data: Vec<u8> = (0..row * 16).map(byte).collect();
        let base = memory.allocate_with(data.clone());
        let map = TensorMap { swizzle, ..TensorMap::dense(ty, base, &[256, 16], &[128, 8]) };
        let tx = 128 * 8 * ty.bits() / 8;
        assert_eq!(map.transaction_bytes(), tx);
        let text = load_text(2, "tile", "c0,c1");
        let got =
            run(&text, map.encode().unwrap(), &[0xCD; WINDOW], 1024, tx, &[128, 12], &mut memory).unwrap();
        let (group, data_bytes) = match ty {
            TensorType::U4Align8 => (8, 8),
            TensorType::U4Align16 => (16, 8),
            _ => (16, 12),
        };
        let mut want = vec![0xCD; WINDOW];
        for r in 0..8 {
            for g in 0..8 {
                for b in 0..data_bytes {
                    // Dynamic shared memory begins on a multiple of 1024.
                    let at = 1024 + swizzle.place((r * 8 * group + g * group + b) as u64) as usize;
                    let from = (12 + r) * row + row / 2 + g * data_bytes + b;
                    // Rows 16 and up are outside, and read as zeros.
                    want[at] = data.get(from).copied().filter(|_| r < 4).unwrap_or(0);
                }
            }
        }
        assert_eq!(got, want, "{ty:?} {swizzle:?}");
    }
}

#[test]
fn six_bit_values_are_packed_by_a_store() {
    let mut memory = GlobalMemory::default();
    let base = memory.allocate_with(vec![0; 96 * 4]);
    let map = TensorMap {
        swizzle: Swizzle::B128Atom64,
        ..TensorMap::dense(TensorType::U6Align16, base, &[128, 4], &[128, 4])
    };
    let input: Vec<u8> = (0..WINDOW).map(byte).collect();
    run(&store_text(2, None), map.encode().unwrap(), &input, 0, 0, &[0, 0], &mut memory).unwrap();
    let got = memory.bytes(base).unwrap();
    for r in 0..4 {
        for i in 0..128 {
            let value = input[map.swizzle.place(r * 128 + i) as usize] & 63;
            let bit = i as usize * 6;
            let word = u16::from(got[r as usize * 96 + bit / 8])
                | u16::from(*got.get(r as usize * 96 + bit / 8 + 1).unwrap_or(&0)) << 8;
            assert_eq!((word >> (bit % 8)) as u8 & 63, value, "row {r}, value {i}");
        }
    }
    // Loads may not use this swizzle, nor stores the type with 8 bytes of gap.
    let text = load_text(2, "tile", "c0,c1");
    assert_eq!(
        rule(run(&text, map.encode().unwrap(), &input, 0, 384, &[0, 0], &mut memory)),
        Rule::TensorMap
    );
    let map = TensorMap::dense(TensorType::U4Align16, base, &[128, 4], &[128, 4]);
    let got = run(&store_text(2, None), map.encode().unwrap(), &input, 0, 0, &[0, 0], &mut memory);
    assert_eq!(rule(got), Rule::TensorMap);
}

#[test]
fn gather4_takes_four_rows() {
    let mut memory = GlobalMemory::default();
    let data: Vec<u8> = (0..64 * 32).map(byte).collect();
    let base = memory.allocate_with(data.clone());
    let map =
        TensorMap { swizzle: Swizzle::B32, ..TensorMap::dense(TensorType::U16, base, &[32, 32], &[16, 1]) };
    let text = load_text(2, "tile::gather4", "c0,c1,c2,c3,c4");
    let rows = [31, 7, 40, 0];
    let got =
        run(&text, map.encode().unwrap(), &[0xCD; WINDOW], 0, 128, &[16, 31, 7, 40, 0], &mut memory).unwrap();
    for (r, row) in rows.into_iter().enumerate() {
        for b in 0..32 {
            let want = if row < 32 { data[row * 64 + 32 + b] } else { 0 };
            assert_eq!(got[Swizzle::B32.place((r * 32 + b) as u64) as usize], want);
        }
    }
    let map = TensorMap::dense(TensorType::U16, base, &[32, 32], &[16, 4]);
    let got = run(&text, map.encode().unwrap(), &[0; WINDOW], 0, 128, &[0, 0, 0, 0, 0], &mut memory);
    assert_eq!(rule(got), Rule::TensorMap);
}

#[test]
fn every_rule_of_packed_maps_is_checked() {
    let good = TensorMap::dense(TensorType::U4Align16, 1 << 40, &[256, 16], &[128, 8]);
    let broken = |f: &dyn Fn(&mut TensorMap)| {
        let mut map = good;
        f(&mut map);
        map.encode().unwrap_err().rule
    };
    assert!(good.encode().is_ok());
    assert_eq!(TensorMap::decode(&good.encode().unwrap()).unwrap(), good);
    let largest = TensorMap::dense(TensorType::U8, 1 << 40, &[256, 256, 4], &[256, 228, 4]);
    assert!(largest.encode().is_ok());
    let larger = TensorMap { box_dims: [256, 229, 4, 1, 1], ..largest };
    assert_eq!(larger.encode().unwrap_err().rule, MapRule::BoxBytes);
    assert_eq!(TensorMap::decode(&[0x55; 128]).unwrap_err().rule, MapRule::Bytes);
    assert_eq!(broken(&|m| m.address += 16), MapRule::Address);
    assert_eq!(broken(&|m| m.dims[0] = 192), MapRule::Dim);
    assert_eq!(broken(&|m| m.strides[0] = 144), MapRule::Stride);
    assert_eq!(broken(&|m| m.box_dims[0] = 64), MapRule::Box);
    assert_eq!(broken(&|m| m.swizzle = Swizzle::B64), MapRule::Swizzle);
    assert_eq!(broken(&|m| m.swizzle = Swizzle::B128Atom64), MapRule::Swizzle);
    assert_eq!(broken(&|m| m.oob_fill = OobFill::Nan), MapRule::Fill);
    assert_eq!(broken(&|m| (m.rank, m.interleave) = (3, Interleave::B16)), MapRule::Interleave);
    assert_eq!(
        broken(&|m| (m.data_type, m.dims[0], m.box_dims[0]) = (TensorType::U4Align8, 255, 64)),
        MapRule::Dim
    );
    assert_eq!(broken(&|m| (m.data_type, m.box_dims[0]) = (TensorType::U4Align8, 48)), MapRule::BoxBytes);
}
