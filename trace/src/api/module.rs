//! Code: modules, libraries, the linker, and the functions and kernels in them.

#[macro_export]
macro_rules! module {
    ($($with:tt)+) => {
        $($with)+! {
            "module";
            // Modules
            cuModuleLoad(module: *mut CUmodule = Create(One), fname: *const c_char = Path) load;
            cuModuleLoadData(module: *mut CUmodule = Create(One), image: *const c_void = Image) load;
            cuModuleLoadDataEx(module: *mut CUmodule = Create(One), image: *const c_void = Image, numOptions: u32,
                options: *mut CUjit_option = In(Len(numOptions)),
                optionValues: *mut *mut c_void = Options { codes: options, count: numOptions }) load;
            cuModuleLoadFatBinary(module: *mut CUmodule = Create(One), fatCubin: *const c_void = Image) load;
            cuModuleUnload(hmod: CUmodule = Destroy) unload;
            cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode = Out(One)) query;
            cuModuleGetFunction(hfunc: *mut CUfunction = Out(One), hmod: CUmodule, name: *const c_char = Text) query;
            cuModuleGetFunctionCount(count: *mut u32 = Out(One), r#mod: CUmodule) query;
            cuModuleEnumerateFunctions(functions: *mut CUfunction = Out(Len(numFunctions)), numFunctions: u32,
                r#mod: CUmodule) query;
            cuModuleGetGlobal_v2(dptr: *mut CUdeviceptr = Out(One), bytes: *mut usize = Out(One), hmod: CUmodule,
                name: *const c_char = Text) query => FindVariable { at: dptr, bytes };
            cuModuleGetGlobal(dptr: *mut CUdeviceptr_v1 = Out(One), bytes: *mut u32 = Out(One), hmod: CUmodule,
                name: *const c_char = Text) query refuse => FindVariable { at: dptr, bytes };
            cuModuleGetTexRef(pTexRef: *mut CUtexref = Out(One), hmod: CUmodule, name: *const c_char = Text) query;
            cuModuleGetSurfRef(pSurfRef: *mut CUsurfref = Out(One), hmod: CUmodule, name: *const c_char = Text) query;

            // The linker. What it makes belongs to it and differs between drivers and devices.
            cuLinkCreate_v2(numOptions: u32, options: *mut CUjit_option = In(Len(numOptions)),
                optionValues: *mut *mut c_void = Options { codes: options, count: numOptions },
                stateOut: *mut CUlinkState = Create(One)) create;
            cuLinkCreate(numOptions: u32, options: *mut CUjit_option = In(Len(numOptions)),
                optionValues: *mut *mut c_void = Options { codes: options, count: numOptions },
                stateOut: *mut CUlinkState = Create(One)) create;
            cuLinkAddData_v2(state: CUlinkState, r#type: CUjitInputType, data: *mut c_void = SizedImage(size),
                size: usize, name: *const c_char = Text, numOptions: u32,
                options: *mut CUjit_option = In(Len(numOptions)),
                optionValues: *mut *mut c_void = Options { codes: options, count: numOptions }) load;
            cuLinkAddData(state: CUlinkState, r#type: CUjitInputType, data: *mut c_void = SizedImage(size),
                size: usize, name: *const c_char = Text, numOptions: u32,
                options: *mut CUjit_option = In(Len(numOptions)),
                optionValues: *mut *mut c_void = Options { codes: options, count: numOptions }) load;
            cuLinkAddFile_v2(state: CUlinkState, r#type: CUjitInputType, path: *const c_char = Path, numOptions: u32,
                options: *mut CUjit_option = In(Len(numOptions)),
                optionValues: *mut *mut c_void = Options { codes: options, count: numOptions }) load;
            cuLinkAddFile(state: CUlinkState, r#type: CUjitInputType, path: *const c_char = Path, numOptions: u32,
                options: *mut CUjit_option = In(Len(numOptions)),
                optionValues: *mut *mut c_void = Options { codes: options, count: numOptions }) load;
            cuLinkComplete(state: CUlinkState, cubinOut: *mut *mut c_void = Owned(LenAt(sizeOut)),
                sizeOut: *mut usize = Volatile(One)) load;
            cuLinkDestroy(state: CUlinkState = Destroy) destroy;

            // Libraries
            cuLibraryLoadData(library: *mut CUlibrary = Create(One), code: *const c_void = Image,
                jitOptions: *mut CUjit_option = In(Len(numJitOptions)),
                jitOptionsValues: *mut *mut c_void = Options { codes: jitOptions, count: numJitOptions },
                numJitOptions: u32, libraryOptions: *mut CUlibraryOption = In(Len(numLibraryOptions)),
                libraryOptionValues: *mut *mut c_void = Options { codes: libraryOptions, count: numLibraryOptions },
                numLibraryOptions: u32) load;
            cuLibraryLoadFromFile(library: *mut CUlibrary = Create(One), fileName: *const c_char = Path,
                jitOptions: *mut CUjit_option = In(Len(numJitOptions)),
                jitOptionsValues: *mut *mut c_void = Options { codes: jitOptions, count: numJitOptions },
                numJitOptions: u32, libraryOptions: *mut CUlibraryOption = In(Len(numLibraryOptions)),
                libraryOptionValues: *mut *mut c_void = Options { codes: libraryOptions, count: numLibraryOptions },
                numLibraryOptions: u32) load;
            cuLibraryUnload(library: CUlibrary = Destroy) unload;
            cuLibraryGetKernel(pKernel: *mut CUkernel = Out(One), library: CUlibrary,
                name: *const c_char = Text) query;
            cuLibraryGetKernelCount(count: *mut u32 = Out(One), lib: CUlibrary) query;
            cuLibraryEnumerateKernels(kernels: *mut CUkernel = Out(Len(numKernels)), numKernels: u32,
                lib: CUlibrary) query;
            cuLibraryGetModule(pMod: *mut CUmodule = Out(One), library: CUlibrary) query;
            cuLibraryGetGlobal(dptr: *mut CUdeviceptr = Out(One), bytes: *mut usize = Out(One), library: CUlibrary,
                name: *const c_char = Text) query => FindVariable { at: dptr, bytes };
            cuLibraryGetManaged(dptr: *mut CUdeviceptr = Out(One), bytes: *mut usize = Out(One), library: CUlibrary,
                name: *const c_char = Text) query => FindManaged { at: dptr, bytes };
            cuLibraryGetUnifiedFunction(fptr: *mut *mut c_void = EntryPoint, library: CUlibrary,
                symbol: *const c_char = Text) query refuse;

            // Kernels of libraries. What the compiler made of them is a matter of the device.
            cuKernelGetFunction(pFunc: *mut CUfunction = Out(One), kernel: CUkernel) query;
            cuKernelGetLibrary(pLib: *mut CUlibrary = Out(One), kernel: CUkernel) query;
            cuKernelGetName(name: *mut *const c_char = TextOut, hfunc: CUkernel) query;
            cuKernelGetParamInfo(kernel: CUkernel, paramIndex: usize, paramOffset: *mut usize = Volatile(One),
                paramSize: *mut usize = Volatile(One)) query;
            cuKernelGetParamCount(kernel: CUkernel, paramCount: *mut usize = Out(One)) query;
            cuKernelGetAttribute(pi: *mut i32 = Volatile(One), attrib: CUfunction_attribute, kernel: CUkernel,
                dev: CUdevice) query;
            cuKernelSetAttribute(attrib: CUfunction_attribute, val: i32, kernel: CUkernel, dev: CUdevice) state;
            cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, dev: CUdevice) state;

            // Functions of modules
            cuFuncGetModule(hmod: *mut CUmodule = Out(One), hfunc: CUfunction) query;
            cuFuncGetName(name: *mut *const c_char = TextOut, hfunc: CUfunction) query;
            cuFuncGetParamInfo(func: CUfunction, paramIndex: usize, paramOffset: *mut usize = Volatile(One),
                paramSize: *mut usize = Volatile(One)) query;
            cuFuncGetParamCount(func: CUfunction, paramCount: *mut usize = Out(One)) query;
            cuFuncGetAttribute(pi: *mut i32 = Volatile(One), attrib: CUfunction_attribute, hfunc: CUfunction) query;
            cuFuncSetAttribute(hfunc: CUfunction, attrib: CUfunction_attribute, value: i32) state;
            cuFuncSetCacheConfig(hfunc: CUfunction, config: CUfunc_cache) state;
            cuFuncSetSharedMemConfig(hfunc: CUfunction, config: CUsharedconfig) state;
            cuFuncIsLoaded(state: *mut CUfunctionLoadingState = Volatile(One), function: CUfunction) query;
            cuFuncLoad(function: CUfunction) load;
            cuFuncSetBlockShape(hfunc: CUfunction, x: i32, y: i32, z: i32) state;
            cuFuncSetSharedSize(hfunc: CUfunction, bytes: u32) state;
        }
    };
}

describe_family!(module);
