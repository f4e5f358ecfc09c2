use super::{Buffer, Loaded, numbers, ptx};
use crate::ptx::exec::Fault;

const LINE: [u32; 3] = [1, 1, 1];

#[test]
fn vector_add() {
    let loaded = Loaded::new(&[ptx!("vector_add")]);
    let a: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..1000).map(|i| 0.5 * i as f32).collect();
    let c = Buffer::from_values(&[-1f32; 1000]);
    let (da, db) = (Buffer::from_values(&a), Buffer::from_values(&b));
    loaded.run("vector_add", [4, 1, 1], [256, 1, 1], 0, &[&da, &db, &c, &999u32]).unwrap();
    let sum: Vec<f32> = a.iter().zip(&b).map(|(x, y)| x + y).take(999).chain([-1.0]).collect();
    assert_eq!(c.get(), sum);
}

#[test]
fn daxpy_strides_over_the_grid() {
    let loaded = Loaded::new(&[ptx!("vector_add")]);
    let x = Buffer::from_values(&(0..500).map(f64::from).collect::<Vec<_>>());
    let y = Buffer::from_values(&[1f64; 500]);
    loaded.run("daxpy", [2, 1, 1], [32, 1, 1], 0, &[&1.5f64, &x, &y, &500i32]).unwrap();
    assert_eq!(y.get(), (0..500).map(|i| 1.5 * f64::from(i) + 1.0).collect::<Vec<_>>());
}

#[test]
fn matrix_product_by_tiles() {
    let loaded = Loaded::new(&[ptx!("matrix_product")]);
    let n = 50usize;
    let values = |from: u32| -> Vec<f32> { numbers(n * n).map(|v| ((v ^ from) % 17) as f32 - 8.0).collect() };
    let (a, b) = (values(0), values(99));
    let (da, db, dc) = (Buffer::from_values(&a), Buffer::from_values(&b), Buffer::from_values(&vec![0f32; n * n]));
    loaded.run("matrix_product", [4, 4, 1], [16, 16, 1], 0, &[&da, &db, &dc, &(n as i32)]).unwrap();
    let c = dc.get();
    for row in 0..n {
        for column in 0..n {
            let sum: f32 = (0..n).map(|k| a[row * n + k] * b[k * n + column]).sum();
            assert_eq!(c[row * n + column], sum, "at {row}, {column}");
        }
    }
}

#[test]
fn tree_reduction_in_dynamic_shared_memory() {
    let loaded = Loaded::new(&[ptx!("reduction")]);
    let values: Vec<f32> = (0..1000).map(|i| (i % 10) as f32).collect();
    let (input, partial) = (Buffer::from_values(&values), Buffer::from_values(&[0f32; 8]));
    loaded.run("tree_sum", [8, 1, 1], [128, 1, 1], 512, &[&input, &partial, &1000u32]).unwrap();
    assert_eq!(partial.get().iter().sum::<f32>(), values.iter().sum());
}

#[test]
fn warp_reduction_by_shuffles() {
    let loaded = Loaded::new(&[ptx!("reduction")]);
    let values: Vec<i32> = numbers(777).map(|v| v as i32 % 1000).collect();
    let (input, total) = (Buffer::from_values(&values), Buffer::from_values(&[0i32]));
    loaded.run("warp_sum", [4, 1, 1], [256, 1, 1], 0, &[&input, &total, &777u32]).unwrap();
    assert_eq!(total.get()[0], values.iter().sum());
}

#[test]
fn histogram_with_atomics() {
    let loaded = Loaded::new(&[ptx!("histogram")]);
    let data: Vec<u8> = numbers(5000).map(|v| v as u8).collect();
    let (input, bins) = (Buffer::from_values(&data), Buffer::from_values(&[0u32; 256]));
    loaded.run("histogram", [3, 1, 1], [100, 1, 1], 0, &[&input, &5000u32, &bins]).unwrap();
    let mut expected = [0u32; 256];
    data.iter().for_each(|&byte| expected[usize::from(byte)] += 1);
    assert_eq!(bins.get(), expected);
}

#[test]
fn atomics_of_every_kind() {
    let loaded = Loaded::new(&[ptx!("histogram")]);
    let values: Vec<i32> = (1..=100).collect();
    let input = Buffer::from_values(&values);
    let (out, wide) = (Buffer::from_values(&[0i32, 1000, 0, 0, 0, 0, 0]), Buffer::from_values(&[0u64]));
    loaded.run("atomics", [4, 1, 1], [32, 1, 1], 0, &[&input, &100u32, &out, &wide]).unwrap();
    assert_eq!(out.get(), [5050, 1, 100, 127, 100 % 7, 42, 200]);
    assert_eq!(wide.get(), [15150]);
}

#[test]
fn linked_list_of_device_addresses() {
    let loaded = Loaded::new(&[ptx!("linked_list")]);
    let (nodes, head, sum) =
        (Buffer::from_values(&[0u64; 200]), Buffer::from_values(&[0u64]), Buffer::from_values(&[0i64]));
    loaded.run("list_build", [1, 1, 1], [128, 1, 1], 0, &[&nodes, &100i32, &head]).unwrap();
    assert_eq!(head.get()[0], nodes.at + 99 * 16);
    loaded.run("list_sum", LINE, LINE, 0, &[&head.get()[0], &sum]).unwrap();
    assert_eq!(sum.get(), [5050]);
}

#[test]
fn struct_by_value() {
    let loaded = Loaded::new(&[ptx!("structs")]);
    let (input, output) = (Buffer::from_values(&[10i32, 20, 30, 40]), Buffer::from_values(&[0i32; 4]));
    let mut job = vec![0u8; 40];
    job[0] = 3;
    job[8..16].copy_from_slice(&1.5f64.to_ne_bytes());
    job[16..24].copy_from_slice(&input.at.to_ne_bytes());
    job[24..32].copy_from_slice(&output.at.to_ne_bytes());
    for (i, count) in [100i16, 200, -300].iter().enumerate() {
        job[32 + 2 * i..34 + 2 * i].copy_from_slice(&count.to_ne_bytes());
    }
    loaded.run("run_job", LINE, [4, 1, 1], 0, &[&job, &4i32]).unwrap();
    assert_eq!(output.get(), [118, 233, -252, 163]);
}

#[test]
fn vectors_after_a_char() {
    let loaded = Loaded::new(&[ptx!("structs")]);
    assert_eq!(loaded.program.kernels[1].parameters.iter().map(|p| p.offset).collect::<Vec<_>>(), [0, 16, 32, 40]);
    let quads = Buffer::from_values(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let by: Vec<u8> = [2f32, 1.0, 0.5, -1.0].iter().flat_map(|v| v.to_ne_bytes()).collect();
    loaded.run("scale_quads", LINE, [2, 1, 1], 0, &[&3i8, &by, &quads, &2i32]).unwrap();
    assert_eq!(quads.get(), [8f32, 2.0, 0.375, -4.0, 40.0, 6.0, 0.875, -8.0]);
}

#[test]
fn variables_of_a_module() {
    let loaded = Loaded::new(&[ptx!("globals")]);
    let (out, target) = (Buffer::from_values(&[0f32; 8]), Buffer::from_values(&[-1i32; 8]));
    loaded.variable::<u64>("target").set(&[target.at]);
    loaded.variable::<f32>("factor").set(&[3.0]);
    loaded.run("use_globals", LINE, [8, 1, 1], 0, &[&out, &8i32]).unwrap();
    assert_eq!(out.get(), [10.0, 20.5, 36.0, 41.5, 22.0, 22.5, 48.0, 43.5]);
    assert_eq!(target.get(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(loaded.variable::<u32>("launches").get(), [4]);
}

#[test]
fn calls_and_recursion() {
    let loaded = Loaded::new(&[ptx!("calls")]);
    let (steps, fibonacci) = (Buffer::from_values(&[0i32; 40]), Buffer::from_values(&[0u32; 40]));
    loaded.run("call_functions", [2, 1, 1], [32, 1, 1], 0, &[&steps, &fibonacci, &40i32]).unwrap();
    let collatz = |mut n: u32| {
        (0..)
            .take_while(|_| {
                let go = n != 1;
                n = if n % 2 == 1 { 3 * n + 1 } else { n / 2 };
                go
            })
            .count() as i32
    };
    assert_eq!(steps.get(), (1..=40).map(collatz).collect::<Vec<_>>());
    assert_eq!(fibonacci.get()[..13], [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 0]);
}

#[test]
fn generic_pointers_to_local_and_shared() {
    let loaded = Loaded::new(&[ptx!("arithmetic")]);
    let out = Buffer::from_values(&[0i32; 64]);
    loaded.run("generic_pointers", LINE, [64, 1, 1], 0, &[&out, &64i32]).unwrap();
    let expected = |t: i32| {
        let pointed = if t % 2 == 1 { t % 8 * t } else { (t + 1) % 64 };
        pointed + (t + 64) % 8 * t
    };
    assert_eq!(out.get(), (0..64).map(expected).collect::<Vec<_>>());
}

#[test]
fn linked_units() {
    let loaded = Loaded::new(&[ptx!("link_main"), ptx!("link_part")]);
    let data = Buffer::from_values(&[1i32, 2, 3]);
    loaded.run("weigh_all", LINE, [32, 1, 1], 0, &[&data, &3i32]).unwrap();
    assert_eq!(data.get(), [6, 11, 16]);
}

#[test]
fn wrong_addresses_are_faults() {
    let loaded = Loaded::new(&[ptx!("faults")]);
    let out = Buffer::from_values(&[0i32; 4]);
    assert_eq!(loaded.run("write_nowhere", LINE, LINE, 0, &[&out]), Err(Fault::IllegalAddress));
    assert_eq!(out.get()[0], 1);
    assert_eq!(loaded.run("busy", LINE, LINE, 0, &[&1u32, &(out.at + 2)]), Err(Fault::Misaligned));
    assert_eq!(loaded.run("busy", LINE, LINE, 0, &[&1u32, &(out.at + 16)]), Err(Fault::IllegalAddress));
}
