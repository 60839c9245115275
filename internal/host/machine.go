package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/netkvlab/netkvlab/internal/results"
)

// recordedSysctls are read from the host. Namespaces inherit some and reset others.
var recordedSysctls = []string{
	"kernel.sched_autogroup_enabled", "net.core.default_qdisc", "net.core.netdev_budget", "net.core.netdev_budget_usecs",
	"net.core.rmem_max", "net.core.somaxconn", "net.core.wmem_max", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_ecn",
	"net.ipv4.tcp_mem", "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_rmem", "net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_wmem",
}

// Describe describes the host of a proc file system. version is netkvlab's; runtimes may be nil.
// What the kernel does not report is left out. Only an unreadable proc is an error, and only on
// Linux: on other systems the kernel's figures are absent.
func Describe(proc, version string, runtimes map[string]string) (*results.Machine, error) {
	m := &results.Machine{
		Netkvlab: version, Go: runtime.Version(), OS: runtime.GOOS, Architecture: runtime.GOARCH,
		CPUs: runtime.NumCPU(), CPUsUsable: runtime.NumCPU(), CongestionControls: []string{},
		Sysctls: map[string]string{}, Runtimes: map[string]string{},
	}
	maps.Copy(m.Runtimes, runtimes)
	if runtime.GOOS != "linux" {
		return m, nil
	}
	if err := readMachine(m, proc); err != nil {
		return nil, fmt.Errorf("describe the host: %w", err)
	}
	return m, nil
}

func readMachine(m *results.Machine, proc string) error {
	cpus, err := os.ReadFile(filepath.Join(proc, "cpuinfo"))
	if err != nil {
		return err
	}
	m.CPUs = 0
	for line := range strings.Lines(string(cpus)) {
		switch key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) {
		case "processor":
			m.CPUs++
		case "model name":
			m.CPUModel = strings.TrimSpace(value)
		}
	}
	memory, err := meminfo(proc)
	if err != nil {
		return err
	}
	if memory.MemTotalBytes != nil {
		m.MemoryBytes = int64(*memory.MemTotalBytes)
	}
	var errs []error
	read := func(name string) string {
		v, err := sysctl(proc, name)
		errs = append(errs, err)
		return v
	}
	m.Kernel = read("kernel.osrelease")
	m.CongestionControls = append(m.CongestionControls, strings.Fields(read("net.ipv4.tcp_available_congestion_control"))...)
	m.CongestionControl = read("net.ipv4.tcp_congestion_control")
	for _, name := range recordedSysctls {
		if v := read(name); v != "" {
			m.Sysctls[name] = v
		}
	}
	return errors.Join(errs...)
}

// sysctl reads a kernel parameter, its values separated by single spaces; "" if it is missing.
func sysctl(proc, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(proc, "sys", filepath.FromSlash(strings.ReplaceAll(name, ".", "/"))))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("sysctl %s: %w", name, err)
	}
	return strings.Join(strings.Fields(string(data)), " "), nil
}

func meminfo(proc string) (procfs.Meminfo, error) {
	p, err := procfs.NewFS(proc)
	if err != nil {
		return procfs.Meminfo{}, err
	}
	m, err := p.Meminfo()
	if err != nil {
		return m, fmt.Errorf("read the host's memory: %w", err)
	}
	return m, nil
}

// AvailableMemory is the kernel's estimate of the bytes that can be used without swapping.
func AvailableMemory(proc string) (int64, error) {
	m, err := meminfo(proc)
	if err != nil {
		return 0, err
	}
	if m.MemAvailableBytes == nil {
		return 0, fmt.Errorf("read the host's memory: %s/meminfo has no MemAvailable", proc)
	}
	return int64(*m.MemAvailableBytes), nil
}

// Usage is what a process has used so far.
type Usage struct {
	ResidentBytes int64
	CPU           time.Duration // user and system, to 10 ms
}

// UsageOf reads what a process has used, such as an agent or a container's first process. The
// error matches fs.ErrNotExist when there is no such process.
func UsageOf(proc string, pid int) (Usage, error) {
	all, err := procfs.NewFS(proc)
	if err != nil {
		return Usage{}, err
	}
	p, err := all.Proc(pid)
	var s procfs.ProcStat
	if err == nil {
		s, err = p.Stat()
	}
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", pid, err)
	}
	return Usage{CPU: time.Duration(s.CPUTime() * float64(time.Second)), ResidentBytes: int64(s.ResidentMemory())}, nil
}
