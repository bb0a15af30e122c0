"""NVIDIA's own Python binding against the fake, board by board.

Run by tests/abi.rs: argument 1 is the folder that the library was loaded from; the scenario file
in it is replaced while NVML stays initialised.
"""

import os
import sys
import time

import pynvml as n

FOLDER = sys.argv[1]
SCENARIO = os.path.join(FOLDER, "scenario.toml")
checks = 0


def play(text):
    """Replaces the scenario as an editor or a test does."""
    with open(SCENARIO + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(SCENARIO + ".new", SCENARIO)


def same(got, wanted, what=""):
    global checks
    checks += 1
    assert got == wanted, f"{what}: got {got!r}, wanted {wanted!r}"


def fails(code, call, *arguments):
    global checks
    checks += 1
    try:
        got = call(*arguments)
    except n.NVMLError as error:
        assert error.value == code, f"{call.__name__}: error {error.value}, wanted {code}"
        return
    raise AssertionError(f"{call.__name__}: got {got!r}, wanted error {code}")


def devices():
    return [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]


def before_init():
    play('board = "8xh100-sxm5"\n')
    fails(n.NVML_ERROR_UNINITIALIZED, n.nvmlDeviceGetCount)
    fails(n.NVML_ERROR_UNINITIALIZED, n.nvmlShutdown)
    play('board = "8xh100-sxm5"\ninit_error = "lib_rm_version_mismatch"\n')
    fails(n.NVML_ERROR_LIB_RM_VERSION_MISMATCH, n.nvmlInit)
    play('board = "8xh100-sxm5"\ndriver_version = "555.42.06"\n')
    n.nvmlInit()
    same(n.nvmlSystemGetDriverVersion(), "555.42.06")
    same(n.nvmlSystemGetNVMLVersion(), "12.570.124.06")
    same(n.nvmlSystemGetCudaDriverVersion(), 12080)
    same(n.nvmlUnitGetCount(), 0)
    same(str(n.NVMLError(n.NVML_ERROR_GPU_IS_LOST)), "GPU is lost")


def h100():
    play('board = "8xh100-sxm5"\n')
    all_devices = devices()
    same(len(all_devices), 8)
    first, last = all_devices[0], all_devices[7]
    same(n.nvmlDeviceGetName(first), "NVIDIA H100 80GB HBM3")
    same(n.nvmlDeviceGetArchitecture(first), n.NVML_DEVICE_ARCH_HOPPER)
    same(n.nvmlDeviceGetCudaComputeCapability(first), (9, 0))
    same(n.nvmlDeviceGetIndex(last), 7)
    same(n.nvmlDeviceGetMinorNumber(last), 7)
    pci = n.nvmlDeviceGetPciInfo(first)
    same(pci.busId, "00000000:18:00.0")
    same(pci.busIdLegacy, "0000:18:00.0")
    same((pci.domain, pci.bus, pci.device), (0, 0x18, 0))
    same(pci.pciDeviceId, 0x233010DE)
    uuid = n.nvmlDeviceGetUUID(last)
    same(uuid[:4], "GPU-")
    same(len({n.nvmlDeviceGetUUID(d) for d in all_devices}), 8)
    same(n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(uuid)), 7)
    same(n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId("0000:DB:00.0")), 7)
    serial = n.nvmlDeviceGetSerial(last)
    same(n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleBySerial(serial)), 7)
    fails(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetHandleByUUID, "GPU-0")
    fails(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetHandleByPciBusId, "0000:01:00.0")
    fails(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceGetHandleByPciBusId, "nonsense")
    fails(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceGetHandleByIndex, 8)

    same(list(n.nvmlDeviceGetCpuAffinity(first, 2)), [2**64 - 1, 0])
    same(list(n.nvmlDeviceGetCpuAffinity(last, 2)), [0, 2**64 - 1])
    same(list(n.nvmlDeviceGetCpuAffinity(last, 1)), [0])
    scope = n.NVML_AFFINITY_SCOPE_SOCKET
    same(list(n.nvmlDeviceGetCpuAffinityWithinScope(last, 2, scope)), [0, 2**64 - 1])
    same(list(n.nvmlDeviceGetMemoryAffinity(last, 1, n.NVML_AFFINITY_SCOPE_NODE)), [2])
    level = n.nvmlDeviceGetTopologyCommonAncestor
    same(level(first, first), n.NVML_TOPOLOGY_INTERNAL)
    same(level(first, all_devices[1]), n.NVML_TOPOLOGY_NODE)
    same(level(first, last), n.NVML_TOPOLOGY_SYSTEM)
    near = n.nvmlDeviceGetTopologyNearestGpus(first, n.NVML_TOPOLOGY_NODE)
    same([n.nvmlDeviceGetIndex(d) for d in near], [1, 2, 3])
    same(n.nvmlDeviceGetP2PStatus(first, last, n.NVML_P2P_CAPS_INDEX_NVLINK), 0)

    memory = n.nvmlDeviceGetMemoryInfo(first)
    same(memory.total, 81559 << 20)
    same(memory.free + memory.used, memory.total)
    newer = n.nvmlDeviceGetMemoryInfo(first, version=n.nvmlMemory_v2)
    same(newer.reserved, 551 << 20)
    same(newer.free + newer.used + newer.reserved, newer.total)
    same(n.nvmlDeviceGetBAR1MemoryInfo(first).bar1Total, 131072 << 20)
    same(n.nvmlDeviceGetTemperature(first, n.NVML_TEMPERATURE_GPU), 31)
    limit = n.nvmlDeviceGetTemperatureThreshold
    same(limit(first, n.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN), 89)
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetFanSpeed, first)
    same(n.nvmlDeviceGetPowerUsage(first), 69800)
    same(n.nvmlDeviceGetPowerManagementLimit(first), 700000)
    same(list(n.nvmlDeviceGetPowerManagementLimitConstraints(first)), [200000, 700000])
    same(n.nvmlDeviceGetEccMode(first), [1, 1])
    same(n.nvmlDeviceGetTotalEccErrors(first, 1, 0), 0)
    same(n.nvmlDeviceGetRemappedRows(first), (0, 0, 0, 0))
    same(n.nvmlDeviceGetRowRemapperHistogram(first).max, 640)
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetRetiredPages, first, 0)
    same(n.nvmlDeviceGetCurrPcieLinkGeneration(first), 5)
    same(n.nvmlDeviceGetMaxPcieLinkWidth(first), 16)
    same(n.nvmlDeviceGetPcieReplayCounter(first), 0)
    same(n.nvmlDeviceGetPersistenceMode(first), 1)
    same(n.nvmlDeviceGetPerformanceState(first), 0)
    same(n.nvmlDeviceGetCurrentClocksEventReasons(first), 1)
    same(n.nvmlDeviceGetMigMode(first), [0, 0])
    same(n.nvmlDeviceGetMaxMigDeviceCount(first), 7)
    fails(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetMigDeviceHandleByIndex, first, 0)
    same(n.nvmlDeviceGetComputeRunningProcesses(first), [])
    fails(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetProcessUtilization, first, 0)

    same(n.nvmlDeviceGetNvLinkState(first, 17), 1)
    fails(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceGetNvLinkState, first, 18)
    same(n.nvmlDeviceGetNvLinkRemotePciInfo(first, 0).busId, "00000000:05:00.0")
    same(n.nvmlDeviceGetNvLinkRemoteDeviceType(first, 0), n.NVML_NVLINK_DEVICE_TYPE_SWITCH)
    same(n.nvmlDeviceGetNvLinkVersion(first, 0), 6)
    fabric = n.c_nvmlGpuFabricInfoV_t()
    n.nvmlDeviceGetGpuFabricInfoV(first, n.byref(fabric))
    same((fabric.state, fabric.status), (n.NVML_GPU_FABRIC_STATE_COMPLETED, 0))


def clocks():
    play('board = "8xh100-sxm5"\n')
    device = devices()[0]
    same(n.nvmlDeviceGetSupportedMemoryClocks(device), [2619, 1593])
    graphics = n.nvmlDeviceGetSupportedGraphicsClocks(device, 2619)
    same((graphics[0], graphics[1], graphics[-1], len(graphics)), (1980, 1965, 345, 110))
    fails(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetSupportedGraphicsClocks, device, 1)
    same(n.nvmlDeviceGetMaxClockInfo(device, n.NVML_CLOCK_SM), 1980)
    same(n.nvmlDeviceGetApplicationsClock(device, n.NVML_CLOCK_GRAPHICS), 1980)
    if os.geteuid() != 0:
        fails(n.NVML_ERROR_NO_PERMISSION, n.nvmlDeviceSetApplicationsClocks, device, 2619, 1200)
    play('board = "8xh100-sxm5"\nunprivileged_changes = true\n')
    n.nvmlDeviceSetApplicationsClocks(device, 1593, 1200)
    same(n.nvmlDeviceGetApplicationsClock(device, n.NVML_CLOCK_GRAPHICS), 1200)
    same(n.nvmlDeviceGetApplicationsClock(device, n.NVML_CLOCK_MEM), 1593)
    same(n.nvmlDeviceGetClockInfo(device, n.NVML_CLOCK_GRAPHICS), 1200)
    same(n.nvmlDeviceGetApplicationsClock(devices()[1], n.NVML_CLOCK_GRAPHICS), 1980)
    n.nvmlDeviceResetApplicationsClocks(device)
    same(n.nvmlDeviceGetApplicationsClock(device, n.NVML_CLOCK_GRAPHICS), 1980)
    fails(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceSetApplicationsClocks, device, 2619, 1)
    n.nvmlDeviceSetGpuLockedClocks(device, 345, 600)
    same(n.nvmlDeviceGetClockInfo(device, n.NVML_CLOCK_SM), 600)
    n.nvmlDeviceResetGpuLockedClocks(device)
    n.nvmlDeviceSetPowerManagementLimit(device, 500000)
    same(n.nvmlDeviceGetEnforcedPowerLimit(device), 500000)
    fails(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceSetPowerManagementLimit, device, 1)
    n.nvmlDeviceSetPowerManagementLimit(device, 700000)


def energy():
    play(
        'board = "8xh100-sxm5"\nfreeze_unix = 1700000060\n'
        "[[device]]\nindex = 0\n"
        "power_schedule = [[1700000000, 100], [1700000010, 650.5], [1700000050, 90]]\n"
        "[[device]]\nindex = 1\nenergy_mj = 123456\n"
    )
    scheduled, fixed = devices()[:2]
    # 10 s at 100 W, 40 s at 650.5 W, 10 s at 90 W.
    same(n.nvmlDeviceGetTotalEnergyConsumption(scheduled), 1_000_000 + 26_020_000 + 900_000)
    same(n.nvmlDeviceGetPowerUsage(scheduled), 90000)
    same(n.nvmlDeviceGetTotalEnergyConsumption(fixed), 123456)
    value = n.nvmlDeviceGetFieldValues(scheduled, [n.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION])[0]
    same((value.nvmlReturn, value.value.ullVal), (0, 27_920_000))
    start = time.time()
    play(f'board = "4xt4"\n[every_device]\npower_w = 50\nenergy_epoch_unix = {start}\n')
    device = devices()[0]
    time.sleep(0.2)
    before = (time.time() - start) * 50_000
    measured = n.nvmlDeviceGetTotalEnergyConsumption(device)
    after = (time.time() - start) * 50_000
    same(before - 1 <= measured <= after + 1, True, f"{before} {measured} {after}")


def health():
    play(
        'board = "8xa100-sxm4-80gb"\n[[device]]\nindex = 2\ntemperature_c = 88\n'
        'clock_event_reasons = ["hw_slowdown", "hw_thermal_slowdown"]\n'
        "ecc.volatile.uncorrected.device_memory = 1\necc.aggregate.corrected.l2_cache = 7\n"
        "remapped_rows = { uncorrected = 2, pending = true }\n"
        "pcie = { replays = 12, generation = 1 }\n"
        "nvlink = { down = [3], errors = [{ link = 4, crc_flit = 9, replay = 2 }] }\n"
    )
    device = devices()[2]
    same(n.nvmlDeviceGetTemperature(device, 0), 88)
    same(n.nvmlDeviceGetCurrentClocksEventReasons(device), 0x48)
    total = n.nvmlDeviceGetTotalEccErrors
    same(total(device, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC), 1)
    same(total(device, n.NVML_MEMORY_ERROR_TYPE_CORRECTED, n.NVML_AGGREGATE_ECC), 7)
    place = n.NVML_MEMORY_LOCATION_DEVICE_MEMORY
    same(n.nvmlDeviceGetMemoryErrorCounter(device, 1, 0, place), 1)
    same(n.nvmlDeviceGetDetailedEccErrors(device, 0, 1).l2Cache, 7)
    same(n.nvmlDeviceGetRemappedRows(device), (0, 2, 1, 0))
    same(n.nvmlDeviceGetPcieReplayCounter(device), 12)
    same(n.nvmlDeviceGetCurrPcieLinkGeneration(device), 1)
    same(n.nvmlDeviceGetMaxPcieLinkGeneration(device), 4)
    same([n.nvmlDeviceGetNvLinkState(device, i) for i in range(12)].count(1), 11)
    same(n.nvmlDeviceGetNvLinkErrorCounter(device, 4, n.NVML_NVLINK_ERROR_DL_CRC_FLIT), 9)
    fields = [
        n.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
        n.NVML_FI_DEV_ECC_SBE_AGG_L2,
        n.NVML_FI_DEV_REMAPPED_PENDING,
        n.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
        n.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L4,
        n.NVML_FI_DEV_NVLINK_LINK_COUNT,
        n.NVML_FI_DEV_MEMORY_TEMP,
        (n.NVML_FI_DEV_NVLINK_GET_STATE, 3),
        n.NVML_FI_DEV_RETIRED_SBE,
    ]
    values = n.nvmlDeviceGetFieldValues(device, fields)
    same([value.value.ullVal for value in values[:-1]], [1, 7, 1, 9, 2, 12, 33, 0])
    same(values[-1].nvmlReturn, n.NVML_ERROR_NOT_SUPPORTED)


def lost_and_absent():
    play('board = "8xh100-sxm5"\n')
    device = devices()[3]
    uuid = n.nvmlDeviceGetUUID(device)
    play('board = "8xh100-sxm5"\n[[device]]\nindex = 3\nlost = true\n')
    same(n.nvmlDeviceGetCount(), 8)
    fails(n.NVML_ERROR_GPU_IS_LOST, n.nvmlDeviceGetHandleByIndex, 3)
    fails(n.NVML_ERROR_GPU_IS_LOST, n.nvmlDeviceGetHandleByUUID, uuid)
    fails(n.NVML_ERROR_GPU_IS_LOST, n.nvmlDeviceGetTemperature, device, 0)
    fails(n.NVML_ERROR_GPU_IS_LOST, n.nvmlDeviceGetUUID, device)
    same(n.nvmlDeviceGetTemperature(n.nvmlDeviceGetHandleByIndex(4), 0), 31)
    play('board = "8xh100-sxm5"\n[[device]]\nindex = 3\nabsent = true\n')
    same(n.nvmlDeviceGetCount(), 7)
    fails(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetHandleByUUID, uuid)
    shifted = n.nvmlDeviceGetHandleByIndex(3)
    same(n.nvmlDeviceGetPciInfo(shifted).busId, "00000000:9A:00.0")
    same(n.nvmlDeviceGetMinorNumber(shifted), 4)


def faults():
    play(
        'board = "4xt4"\n[[fault]]\ncall = "nvmlDeviceGetCpuAffinity"\ndevice = 1\n'
        'mode = "error"\nerror = "gpu_is_lost"\n'
        '[[fault]]\ncall = "nvmlDeviceGetName"\nmode = "error"\nerror = 999\ntimes = 1\n'
        '[[fault]]\ncall = "nvmlDeviceGetSerial"\nmode = "hang"\nseconds = 0.1\n'
    )
    first, second = devices()[:2]
    n.nvmlDeviceGetCpuAffinity(first, 1)
    fails(n.NVML_ERROR_GPU_IS_LOST, n.nvmlDeviceGetCpuAffinity, second, 1)
    fails(n.NVML_ERROR_UNKNOWN, n.nvmlDeviceGetName, first)
    same(n.nvmlDeviceGetName(first), "Tesla T4")
    begun = time.monotonic()
    n.nvmlDeviceGetSerial(first)
    same(time.monotonic() - begun >= 0.1, True)
    play('board = "4xt4"\n[machine]\ncpu_affinity = "not_supported"\n')
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetCpuAffinity, first, 1)
    play('board = "4xt4"\n[machine]\ncpu_affinity = "machine"\n')
    same(list(n.nvmlDeviceGetCpuAffinity(first, 1)), [2**32 - 1])
    # Half a file changes nothing.
    play('board = "4xt')
    same(list(n.nvmlDeviceGetCpuAffinity(first, 1)), [2**32 - 1])
    play("")
    same(n.nvmlDeviceGetCount(), 4)
    calls = os.path.join(FOLDER, "calls")
    play(f'board = "4xt4"\ncount_calls = "{calls}"\n')
    n.nvmlDeviceGetName(second)
    with open(calls, encoding="utf-8") as file:
        words = file.read().split()
    same(words[:3], [str(os.getpid()), "nvmlDeviceGetName", "1"])


def processes():
    with open("/proc/self/comm", encoding="utf-8") as file:
        comm = file.read().strip()
    play(
        'board = "8xh100-sxm5"\nfreeze_unix = 1700000060.25\n'
        "[[process]]\ndevice = 0\npid = 4242\ngpu_memory_mib = 1000\nsm_util = 60\nmem_util = 20\n"
        f'[[process]]\ndevice = 0\ncomm = "{comm}"\ngpu_memory_mib = 24\nsm_util = 5\n'
        '[[process]]\ndevice = 1\npid = 4243\nkind = "graphics"\n'
    )
    device, other = devices()[:2]
    found = n.nvmlDeviceGetComputeRunningProcesses(device)
    mine = {p.pid: p for p in found}
    same(mine[4242].usedGpuMemory, 1000 << 20)
    same(mine[os.getpid()].usedGpuMemory, 24 << 20)
    same(mine[4242].gpuInstanceId, 0xFFFFFFFF)
    same(n.nvmlDeviceGetComputeRunningProcesses(other), [])
    same([p.pid for p in n.nvmlDeviceGetGraphicsRunningProcesses(other)], [4243])
    # The binding itself asks with a count of 0 first; here the raw protocol.
    count = n.c_uint(1)
    call = n._nvmlGetFunctionPointer("nvmlDeviceGetComputeRunningProcesses_v3")
    room = (n.c_nvmlProcessInfo_v2_t * 1)()
    same(call(device, n.byref(count), room), n.NVML_ERROR_INSUFFICIENT_SIZE)
    same(count.value, len(found))
    used = n.nvmlDeviceGetMemoryInfo(device, version=n.nvmlMemory_v2).used
    same(used, sum(p.usedGpuMemory for p in found))
    same(n.nvmlDeviceGetUtilizationRates(device).gpu >= 65, True)
    samples = n.nvmlDeviceGetProcessUtilization(device, 0)
    newest = max(s.timeStamp for s in samples)
    same(newest, 1700000060 * 1_000_000)
    same({s.pid: s.smUtil for s in samples}[4242], 60)
    fails(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetProcessUtilization, device, newest)


def events():
    play('board = "8xh100-sxm5"\n[[device]]\nindex = 0\nxid = [{ code = 13 }]\n')
    device = devices()[0]
    events = n.nvmlEventSetCreate()
    n.nvmlDeviceRegisterEvents(device, n.nvmlEventTypeXidCriticalError, events)
    fails(n.NVML_ERROR_TIMEOUT, n.nvmlEventSetWait, events, 30)
    play(
        'board = "8xh100-sxm5"\n[[device]]\nindex = 0\nlost = true\n'
        "xid = [{ code = 13 }, { code = 79 }]\n"
    )
    data = n.nvmlEventSetWait(events, 2000)
    same((data.eventType, data.eventData), (n.nvmlEventTypeXidCriticalError, 79))
    fails(n.NVML_ERROR_TIMEOUT, n.nvmlEventSetWait, events, 30)
    n.nvmlEventSetFree(events)
    fails(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlEventSetFree, events)


def mig():
    play('board = "a100-mig-mixed"\n[[process]]\ndevice = 0\ngi = 3\nci = 0\npid = 77\n')
    cut, whole = devices()
    same(n.nvmlDeviceGetMigMode(cut), [1, 1])
    same(n.nvmlDeviceGetMigMode(whole), [0, 0])
    parts = [n.nvmlDeviceGetMigDeviceHandleByIndex(cut, i) for i in range(4)]
    fails(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetMigDeviceHandleByIndex, cut, 4)
    names = ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]
    wanted = [f"NVIDIA A100-SXM4-80GB MIG {name}" for name in names]
    same([n.nvmlDeviceGetName(part) for part in parts], wanted)
    same([n.nvmlDeviceGetGpuInstanceId(part) for part in parts], [2, 3, 9, 10])
    same([n.nvmlDeviceGetComputeInstanceId(part) for part in parts], [0] * 4)
    uuid = n.nvmlDeviceGetUUID(parts[1])
    same(uuid[:4], "MIG-")
    same(n.nvmlDeviceGetGpuInstanceId(n.nvmlDeviceGetHandleByUUID(uuid)), 3)
    old = f"MIG-{n.nvmlDeviceGetUUID(cut)}/3/0"
    same(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByUUID(old)), uuid)
    attributes = n.nvmlDeviceGetAttributes(parts[0])
    same((attributes.gpuInstanceSliceCount, attributes.memorySizeMB), (3, 40192))
    same(attributes.multiprocessorCount, 42)
    same(n.nvmlDeviceGetMemoryInfo(parts[2]).total, 9728 << 20)
    same(n.nvmlDeviceIsMigDeviceHandle(parts[0]).value, 1)
    same(n.nvmlDeviceIsMigDeviceHandle(cut).value, 0)
    parent = n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(parts[0])
    same(n.nvmlDeviceGetUUID(parent), n.nvmlDeviceGetUUID(cut))
    fails(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceGetGpuInstanceId, cut)
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetTemperature, parts[0], 0)
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetTotalEnergyConsumption, parts[0])
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetUtilizationRates, cut)
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetAttributes, cut)
    found = n.nvmlDeviceGetComputeRunningProcesses(cut)
    same([(p.pid, p.gpuInstanceId, p.computeInstanceId) for p in found], [(77, 3, 0)])
    same([p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(parts[1])], [77])
    same(n.nvmlDeviceGetComputeRunningProcesses(parts[0]), [])
    instance = n.nvmlDeviceGetGpuInstanceById(cut, 3)
    info = n.nvmlGpuInstanceGetInfo(instance)
    same((info.id, info.profileId, info.placement.size), (3, 14, 2))
    profile = n.nvmlDeviceGetGpuInstanceProfileInfo(cut, n.NVML_GPU_INSTANCE_PROFILE_1_SLICE)
    same((profile.id, profile.instanceCount), (19, 7))
    play('board = "h100-mig-7x1g"\n')
    for device in devices():
        parts = [n.nvmlDeviceGetMigDeviceHandleByIndex(device, i) for i in range(7)]
        same([n.nvmlDeviceGetGpuInstanceId(part) for part in parts], [7, 8, 9, 10, 11, 12, 13])


def other_boards():
    play('board = "16xv100-sxm3"\n')
    all_devices = devices()
    same(len(all_devices), 16)
    same(n.nvmlDeviceGetTopologyCommonAncestor(all_devices[0], all_devices[1]), 10)
    same(n.nvmlDeviceGetTopologyCommonAncestor(all_devices[0], all_devices[2]), 20)
    same(n.nvmlDeviceGetRetiredPages(all_devices[0], 0), [])
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetRemappedRows, all_devices[0])
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetMigMode, all_devices[0])
    same(n.nvmlDeviceGetMaxMigDeviceCount(all_devices[0]), 0)
    play('board = "4xgh200"\n')
    grace = devices()
    same(list(n.nvmlDeviceGetCpuAffinity(grace[1], 3)), [0, 2**64 - 256, 2**16 - 1])
    same(n.nvmlDeviceGetNumaNodeId(grace[1]), 12)
    ends = {n.nvmlDeviceGetNvLinkRemotePciInfo(grace[0], i).busId for i in range(18)}
    same(ends, {n.nvmlDeviceGetPciInfo(device).busId for device in grace[1:]})
    play('board = "8xl40s"\n')
    card = devices()[0]
    fails(n.NVML_ERROR_NOT_SUPPORTED, n.nvmlDeviceGetNvLinkState, card, 0)
    for board, name in [("8xh200", "NVIDIA H200"), ("8xb200", "NVIDIA B200")]:
        play(f'board = "{board}"\n')
        same(n.nvmlDeviceGetName(devices()[7]), name)


for part in [
    before_init,
    h100,
    clocks,
    energy,
    health,
    lost_and_absent,
    faults,
    processes,
    events,
    mig,
    other_boards,
]:
    part()
n.nvmlShutdown()
fails(n.NVML_ERROR_UNINITIALIZED, n.nvmlDeviceGetCount)
print(f"{checks} checks passed")
