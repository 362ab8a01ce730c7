//! Im2col loads against recordings of an H200 (driver 580, `cuTensorMapEncodeIm2col`): the bytes of maps, what they load, which maps are
//! refused, and which copies are illegal instructions.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use emulator::{
    GlobalMemory, Im2col, Launch, OobFill, Options, Rule, Stop, Swizzle, TensorMap, TensorType, launch, load,
};
use serde_json::Value;

const BUFFER: usize = 1 << 16;

fn recordings(what: &str) -> Vec<Value> {
    let all = include_str!("../tensor/im2col_h200.jsonl").lines();
    all.map(|line| serde_json::from_str::<Value>(line).unwrap()).filter(|v| v["what"] == what).collect()
}

fn list(v: &Value, name: &str) -> Vec<i64> {
    v[name].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect()
}

fn number(v: &Value, name: &str) -> u64 {
    v[name].as_u64().unwrap()
}

fn map_of(v: &Value, address: u64) -> TensorMap {
    let dims: Vec<u64> = list(v, "dims").iter().map(|n| *n as u64).collect();
    let corner = |name: &str| {
        let given = list(v, name);
        std::array::from_fn(|i| given.get(i).map_or(0, |n| *n as i32))
    };
    let kind = TensorType::from_code(number(v, "type")).unwrap();
    let mut map = TensorMap::dense(kind, address, &dims, &[number(v, "channels") as u32]);
    for (to, from) in map.strides.iter_mut().zip(list(v, "strides")) {
        *to = from as u64;
    }
    for (to, from) in map.element_strides.iter_mut().zip(list(v, "es")) {
        *to = from as u32;
    }
    map.swizzle = Swizzle::from_code(number(v, "swz")).unwrap();
    map.oob_fill = OobFill::from_code(number(v, "fill")).unwrap();
    let pixels = number(v, "pixels") as u32;
    map.im2col = Some(Im2col { lower: corner("lower"), upper: corner("upper"), pixels });
    map
}

/// A kernel in which one thread loads and gives the bytes back.
fn kernel(rank: usize) -> String {
    let names =
        |prefix: &str, count| (0..count).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>().join(",");
    let words: String = (0..rank).map(|i| format!("ld.param.u32 c{i}, [p_c+{}];\n", 4 * i)).collect();
    let halves: String = (0..rank - 2).map(|i| format!("ld.param.u16 o{i}, [p_o+{}];\n", 2 * i)).collect();
    let (coordinates, offsets) = (names("c", rank), names("o", rank - 2));
    format!(
        ".version 8.0 .target sm_90 .address_size 64
.visible .entry k(.param .align 64 .b8 tm[128], .param .u64 p_out, .param .u32 p_tx, .param .align 4 .b8 p_c[20], .param .align 2 .b8 p_o[6])
{{
.reg .b64 tmp, out; .reg .b32 tx, c<5>, i, v, s, base; .reg .b16 o<3>; .reg .pred p;
.shared .align 1024 .b8 tile[32768]; .shared .align 8 .b64 bar;
ld.param.u64 out, [p_out]; ld.param.u32 tx, [p_tx];
{words}{halves}mov.b64 tmp, tm; cvta.param.u64 tmp, tmp;
mov.u32 base, tile;
mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], tx;
cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [base], [tmp, {{{coordinates}}}], [bar], {{{offsets}}};
W: mbarrier.try_wait.parity.shared.b64 p, [bar], 0; @!p bra W;
mov.u32 i, 0;
O: add.u32 s, base, i; ld.shared.u32 v, [s]; st.global.u32 [out], v; add.u64 out, out, 4; add.u32 i, i, 4;
setp.lt.u32 p, i, tx; @p bra O;
ret;
}}"
    )
}

/// What a load of a recording brings.
fn loaded(v: &Value) -> Result<Vec<u8>, Stop> {
    let mut memory = GlobalMemory::default();
    let halves = (0..BUFFER).flat_map(|i| ((i * 40503 + 7) as u16).to_le_bytes());
    let map = map_of(v, memory.allocate_with(halves.collect()));
    let bytes = map.transaction_bytes();
    let out = memory.allocate(bytes as usize);
    let mut params = map.encode().unwrap().to_vec();
    params.extend(out.to_le_bytes());
    params.extend((bytes as u32).to_le_bytes());
    let words = list(v, "c").into_iter().chain([0, 0]).take(5).flat_map(|c| (c as i32).to_le_bytes());
    params.extend(words);
    let halves = list(v, "offsets").into_iter().chain([0, 0]).take(3).flat_map(|o| (o as u16).to_le_bytes());
    params.extend(halves);
    let program = load(&kernel(map.rank))?;
    let how = Launch { grid: [1, 1, 1], block: [1, 1, 1], shared_bytes: 0, params };
    launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &Options::default())?;
    Ok(memory.bytes(out).unwrap().to_vec())
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn loads_do_what_an_h200_did() {
    let all = recordings("load");
    assert!(all.len() > 200);
    for v in all {
        let got = loaded(&v).unwrap_or_else(|stop| panic!("{stop}\n{v}"));
        assert_eq!(format!("{:016x}", fnv(&got)), v["hash"].as_str().unwrap(), "{v}");
    }
}

#[test]
fn maps_are_the_drivers_byte_for_byte_and_come_back() {
    for v in recordings("load").iter().chain(&recordings("trap")) {
        let map = map_of(v, 0x7F00_0000);
        let bytes = map.encode().unwrap();
        let text: String = bytes[8..].iter().map(|b| format!("{b:02x}")).collect();
        let recorded = v["map"].as_str().unwrap();
        assert_eq!(text.trim_end_matches('0'), recorded.trim_end_matches('0'), "{v}");
        assert_eq!(TensorMap::decode(&bytes), Ok(map));
    }
}

#[test]
fn what_the_driver_refuses_is_refused() {
    for v in recordings("refused") {
        assert!(map_of(&v, 0x7F00_0000).encode().is_err(), "{v}");
    }
}

#[test]
fn an_illegal_copy_is_a_violation() {
    for v in recordings("trap") {
        match loaded(&v) {
            Err(Stop::Trap(trap)) => assert_eq!(trap.rule, Rule::TensorMap, "{v}"),
            other => panic!("{other:?}\n{v}"),
        }
    }
}

#[test]
fn a_map_is_for_one_of_both_modes() {
    let v = &recordings("load")[0];
    let mut memory = GlobalMemory::default();
    let tiles = TensorMap { im2col: None, ..map_of(v, memory.allocate(BUFFER)) };
    let rank = tiles.rank;
    let mut params = tiles.encode().unwrap().to_vec();
    params.extend([0; 8 + 4 + 20 + 6]);
    let program = load(&kernel(rank)).unwrap();
    let how = Launch { grid: [1, 1, 1], block: [1, 1, 1], shared_bytes: 0, params };
    let kernel = program.kernel("k").unwrap();
    match launch(&program, kernel, &how, &mut memory, &Options::default()) {
        Err(Stop::Trap(trap)) => assert!(trap.what.contains("by a map for tiles"), "{trap}"),
        other => panic!("{other:?}"),
    }
}
