# What scripts/gpu-test --build makes; needs no GPU.

# The wheels of a CUDA release, unpacked: runtimes of four releases, the compiler, CUPTI.
wheels() {
    local to=$1; shift
    [ -d "$to" ] && return
    local work; work=$(mktemp -d)
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$work" "$@" || exit 1
    for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$to"; done
    rm -rf "$work"
}

# Images whose kernels' parameters are compared with what the driver says: machine code, text, both in fatbins, linked code.
# What needs no driver is compared here: the text of a kernel and its machine code must tell the same.
images() {
    local to=$in/images kernels=tests/apps/kernels signatures=trace/tests/images/signatures.cu source name
    cargo build --release --package trace --example parameters
    cp target/release/examples/parameters "$in"/
    rm -rf "$to"; mkdir -p "$to"
    for source in $kernels/*.cu $signatures; do
        name=$to/$(basename "$source" .cu)
        case $source in */link_*) continue ;; esac
        nvcc -w -arch=sm_90 -cubin -o "$name.cubin" "$source"
        nvcc -w -arch=compute_90 -ptx -o "$name.ptx" "$source"
        diff <("$in/parameters" --sm 90 "$name.cubin") <("$in/parameters" --sm 90 "$name.ptx")
    done
    local both="-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90"
    nvcc -w $both --compress-mode=none -fatbin -o "$to/both.fatbin" $signatures
    nvcc -w $both --compress-mode=speed -Xfatbin -compress-all -fatbin -o "$to/both_lz4.fatbin" $signatures
    nvcc -w -arch=compute_80 --compress-mode=speed -fatbin -o "$to/text_lz4.fatbin" $signatures
    nvcc -w -gencode arch=compute_90a,code=sm_90a $both -fatbin --compress-mode=none -o "$to/specific.fatbin" $signatures
    nvcc -w -arch=compute_75 -ptx -o "$to/old_text.ptx" $signatures
    nvcc -w -rdc=true -arch=sm_90 -cubin -o "$to/main.o" $kernels/link_main.cu
    nvcc -w -rdc=true -arch=sm_90 -cubin -o "$to/part.o" $kernels/link_part.cu
    nvlink -arch=sm_90 -o "$to/linked.cubin" "$to/main.o" "$to/part.o"
    rm "$to"/*.o
}

# Programs of the runtime API and the libraries, in a folder of tests/gpu. Their sources say how: after "// nvcc:" stand further
# options of the compiler, after "// nvcc NAME:" those of one more program of the same source, after "// with NAME:" what the
# environment is to be when the program is run once more. FOLDER/list gets a line for each run: name, environment, program.
samples() {
    local folder=$2 root=$PWD/$1 libraries=$PWD/target/cuda/libraries/nvidia/cu13 older=$PWD/target/cuda/12.9/nvidia/cuda_runtime source name line
    wheels target/cuda/libraries nvidia-cublas==13.0.* nvidia-cufft==12.0.0.* nvidia-curand==10.4.0.* nvidia-cusolver==12.0.* \
        nvidia-cusparse==12.6.* nvidia-npp==13.0.* nvidia-nvjitlink==13.0.* nvidia-cuda-nvrtc==13.0.* nvidia-nvjpeg==13.0.* \
        nvidia-cuda-profiler-api==13.0.*
    mkdir -p "$in/$folder"
    local to; to=$(cd "$in/$folder" && pwd)
    # The linker wants the names without versions.
    for line in "$libraries"/lib/*.so.*; do ln -sf "$(basename "$line")" "${line%%.so.*}.so"; done
    rm -f "$to/list" "$to/commands"
    for source in tests/gpu/"$folder"/*.cu; do
        case $source in *_part.cu) continue ;; esac
        while read -r line; do
            name=$(basename "$source" .cu)
            case $line in
                '// nvcc '*) line=${line#// nvcc }; name+=_${line%%:*}; line=${line#*:} ;;
                '// nvcc:'*) line=${line#// nvcc:} ;;
                '// with '*) line=${line#// with }; echo "${name}_${line%%:*} ${line#*: } $name" >>"$to/list"; continue ;;
                *) line= ;;
            esac
            echo "$name $name" >>"$to/list"
            line=${line//DRIVER/$PWD/target/packaged/libcutrace.so}
            line=${line//OLDER/$older}
            echo "[ '$to/$name' -nt '$PWD/$source' ] || nvcc -w -std=c++17 $([[ $line == *-arch* || $line == *-gencode* ]] || echo -arch=sm_90)" \
                "$([[ $line == *-cudart* ]] || echo -cudart shared) -Xlinker -s -I'$libraries/include' -L'$root/lib'" \
                "-L'$libraries/lib' -o '$to/$name' '$(basename "$source")' $line" >>"$to/commands"
        done < <(grep -q '^// nvcc:' "$source" || echo plain; grep -E '^// (nvcc|with)\b' "$source")
    done
    (cd tests/gpu/"$folder" && xargs -P "$(nproc)" -d '\n' -I{} bash -c {} <"$to/commands")
    rm "$to/commands"
}

build() {
    set -e
    ./scripts/cuda-headers
    cargo build --profile packaged --workspace --no-default-features
    mkdir -p "$in"
    local cuda=target/cuda/toolkit
    wheels "$cuda" nvidia-cuda-runtime==13.0.* nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.* nvidia-nvvm==13.0.* \
        nvidia-cuda-cccl==13.0.* nvidia-cuda-cupti==13.0.*
    wheels target/cuda/11.8 nvidia-cuda-runtime-cu11==11.8.*
    wheels target/cuda/12.1 nvidia-cuda-runtime-cu12==12.1.*
    wheels target/cuda/12.9 nvidia-cuda-runtime-cu12==12.9.*
    local root=$cuda/nvidia/cu13
    chmod +x "$root"/bin/* "$root"/bin/crt/* "$root"/nvvm/bin/* 2>/dev/null || true
    cp target/packaged/{cutrace,libcutrace.so,libcuda_sim.so} "$in"/
    # What travels to the GPU machine is limited; the names of functions stay.
    strip --strip-debug "$in"/{cutrace,libcutrace.so,libcuda_sim.so}
    local programs; programs=$(grep -l '"check.h"' tests/apps/*/*.c tests/gpu/tools/*.c | grep -v '/libraries/\|/process/\|/jobs/')
    mkdir -p "$in/jobs"
    cp tests/gpu/jobs/*.py "$in/jobs"/
    for source in tests/apps/jobs/*.c; do
        # Its ranks' kernels wait for each other, which those of processes on one device cannot.
        [[ $source != */training.c ]] || continue
        gcc -O1 -w -D_GNU_SOURCE -I target/cuda/include -I tests/apps -o "$in/jobs/$(basename "$source" .c)" "$source" \
            target/packaged/libcutrace.so -lpthread
    done
    for source in $programs; do
        gcc -O1 -w -D_GNU_SOURCE -I target/cuda/include -I target/cuda/include-nvtx -I tests/apps -o "$in/$(basename "$source" .c)" "$source" \
            target/packaged/libcutrace.so -lpthread
    done
    mkdir -p "$in/coverage"
    for source in tests/gpu/coverage/*.c; do
        gcc -O1 -w -D_GNU_SOURCE -I target/cuda/include -I tests/apps -o "$in/coverage/$(basename "$source" .c)" "$source" \
            target/packaged/libcutrace.so -lpthread
    done
    mkdir -p "$in/kernels"
    cp tests/apps/kernels/*.ptx "$in/kernels"/
    # Not run: two want to be told what to do, for the search of a culprit; loop_calls and single_calls are benchmarks; hanging
    # hangs; two_halves is for the viewer; slow_callbacks needs a driver that runs callbacks side by side, which 580 does not;
    # newer_than_header, one to come. What the CPU writes in pinned_arena is told too late, and in
    # pinned_written_in_part_of_page too early, as their verdicts say; so do those of tagged_pointers and
    # io_uring_fixed_buffers. wrong_arguments, graph_of_library_fault, unordered_copy, range_replayed_alone,
    # managed_results, weights_of_file, deep_ranges and differing_calls want arguments, or die as they should;
    # allocation_churn takes minutes on a busy device, and what allocate_until_none gets depends on what others have.
    # fill_before_batch_copies is unordered and pageable_filled_late `partly`, each by name; which lines printf_overflows loses is a race.
    sed 's,.*/,,; s/\.c$//' <<<"$programs" | grep -vx 'graph_fault\|nondeterministic\|slow_callbacks\|newer_than_header\|loop_calls\|single_calls\|hanging\|two_halves\|pinned_arena\|pinned_written_in_part_of_page\|flag_restored_by_cpu\|ends_while_streams_wait\|write_found_by_other_callback\|tagged_pointers\|io_uring_fixed_buffers\|wrong_arguments\|graph_of_library_fault\|unordered_copy\|range_replayed_alone\|managed_results\|allocation_churn\|allocate_until_none\|weights_of_file\|deep_ranges\|differing_calls\|fill_before_batch_copies\|pageable_filled_late\|printf_overflows' >"$in/programs"
    mkdir -p "$in/facts"
    for source in tests/gpu/facts/*.c; do
        gcc -O1 -I target/cuda/include -I tests/apps -o "$in/facts/$(basename "$source" .c)" "$source" target/packaged/libcutrace.so
    done
    mv "$in/facts/parameters" "$in/driver_parameters"
    gcc -O2 -shared -fPIC -I "$root/include" -o "$in/libcupti_counts.so" tests/gpu/tools/cupti_counts.c "$root/lib/libcupti.so.13"
    gcc -O2 -shared -fPIC -I "$root/include" -o "$in/libcupti_times.so" tests/gpu/tools/cupti_times.c "$root/lib/libcupti.so.13"
    cp "$root/lib/libcupti.so.13" "$in/"
    export PATH=$PWD/$root/bin:$PATH
    nvcc -arch=sm_90 -cudart static -L "$root/lib" -o "$in/timed_kernels" tests/gpu/tools/timed_kernels.cu
    ln -sf libcudart.so.13 "$root/lib/libcudart.so"
    nvcc -rdc=true -arch=sm_90 -cudart shared -L "$root/lib" -o "$in/facts/driver_addresses" tests/gpu/facts/driver_addresses.cu
    images
    nvcc -arch=sm_90 -cudart static -L "$root/lib" -o "$in/runtime_graph_static" "$workloads/runtime_graph.cu"
    nvcc -g -G -arch=sm_90 -cudart static -L "$root/lib" -o "$in/runtime_graph_debug" "$workloads/runtime_graph.cu"
    nvcc -arch=sm_90 -cudart shared -L "$root/lib" -o "$in/runtime_graph_shared" "$workloads/runtime_graph.cu"
    nvcc -arch=sm_90 -fatbin -o "$in/registered_kernel.fatbin" "$workloads/registered_kernel.cu"
    gcc -w -o "$in/registered_kernel" "$workloads/registered_kernel.c" -ldl
    gcc -O2 -w -I target/cuda/include -o "$in/bench" "$workloads/bench.c" target/packaged/libcutrace.so -lpthread
    scripts/bench --build "$in"
    samples "$root" samples
    samples "$root" unseen
    cp tests/gpu/unseen/*.py "$in"/unseen/
    cp target/cuda/12.9/nvidia/cuda_runtime/lib/libcudart.so.12 "$in/samples/"
    cp target/cuda/11.8/nvidia/cuda_runtime/lib/libcudart.so.11.0 "$in/libcudart-11.8.so"
    cp target/cuda/12.1/nvidia/cuda_runtime/lib/libcudart.so.12 "$in/libcudart-12.1.so"
    cp target/cuda/12.9/nvidia/cuda_runtime/lib/libcudart.so.12 "$in/libcudart-12.9.so"
    cp "$root/lib/libcudart.so.13" "$in/"
    cp "$workloads"/*.py "$in"/
    cp scripts/gpu/*.py tests/gpu/tools/*.cu tests/gpu/frameworks/*.py tests/gpu/two_gpus/*.py "$in"/ 2>/dev/null || true
    nvcc -arch=sm_90 -std=c++17 -cudart static -L "$root/lib" -o "$in/peers" tests/gpu/two_gpus/peers.cu
    echo "gpu-test: built in $in" >&2
}
