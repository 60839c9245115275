package results

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
)

// Host is host.json: what a reader needs to judge or repeat a run. It holds no
// host, user or network names.
type Host struct {
	Netkvlab     string `json:"netkvlab"` // version
	Go           string `json:"go"`
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Kernel       string `json:"kernel"` // release, as uname -r
	// CPUModel is absent where the kernel does not name it (most ARM machines).
	CPUModel string `json:"cpu_model,omitempty"`
	// CPUs counts the logical CPUs of the host, CPUsUsable those this process may run on.
	CPUs        int   `json:"cpus"`
	CPUsUsable  int   `json:"cpus_usable"`
	MemoryBytes int64 `json:"memory_bytes"`
	// CongestionControls are those the kernel offers, CongestionControl its default;
	// what a run's sockets used is the scenario's transfer.congestionControl.
	CongestionControls []string `json:"congestion_controls"`
	CongestionControl  string   `json:"congestion_control"`
	// Sysctls of the host that touch the agents' TCP; one that this kernel lacks is absent.
	Sysctls map[string]string `json:"sysctls"`
	// Runtimes maps a container runtime to its version; empty when none was used.
	Runtimes map[string]string `json:"runtimes"`
}

// recordedSysctls are read from the host. Namespaces inherit some and reset others.
var recordedSysctls = []string{
	"kernel.sched_autogroup_enabled",
	"net.core.default_qdisc",
	"net.core.netdev_budget",
	"net.core.netdev_budget_usecs",
	"net.core.rmem_max",
	"net.core.somaxconn",
	"net.core.wmem_max",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.tcp_ecn",
	"net.ipv4.tcp_mem",
	"net.ipv4.tcp_no_metrics_save",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_wmem",
}

// ReadHost describes the host whose root file system is root, os.DirFS("/") in
// production. version is netkvlab's; runtimes may be nil. What the kernel does
// not offer is left out; only an unreadable /proc is an error.
func ReadHost(root fs.FS, version string, runtimes map[string]string) (*Host, error) {
	h := &Host{
		Netkvlab: version, Go: runtime.Version(), OS: runtime.GOOS, Architecture: runtime.GOARCH,
		CPUsUsable: runtime.NumCPU(), CongestionControls: []string{},
		Sysctls: map[string]string{}, Runtimes: map[string]string{},
	}
	for name, v := range runtimes {
		h.Runtimes[name] = v
	}
	release, err := fs.ReadFile(root, "proc/sys/kernel/osrelease")
	if err != nil {
		return nil, fmt.Errorf("describe host: %w", err)
	}
	h.Kernel = string(bytes.TrimSpace(release))
	if err := h.readCPU(root); err != nil {
		return nil, err
	}
	if err := h.readMemory(root); err != nil {
		return nil, err
	}
	return h, h.readSysctls(root)
}

// readCPU counts processors and takes the first model name.
func (h *Host) readCPU(root fs.FS) error {
	data, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		return fmt.Errorf("describe host: %w", err)
	}
	eachField(data, func(key, value string) {
		switch key {
		case "processor":
			h.CPUs++
		case "model name":
			if h.CPUModel == "" {
				h.CPUModel = value
			}
		}
	})
	return nil
}

func (h *Host) readMemory(root fs.FS) error {
	data, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return fmt.Errorf("describe host: %w", err)
	}
	eachField(data, func(key, value string) {
		if key != "MemTotal" {
			return
		}
		var kib int64
		if kib, err = strconv.ParseInt(strings.TrimSuffix(value, " kB"), 10, 64); err == nil {
			h.MemoryBytes = kib << 10
		}
	})
	if err != nil {
		return fmt.Errorf("describe host: MemTotal of /proc/meminfo: %w", err)
	}
	return nil
}

func (h *Host) readSysctls(root fs.FS) error {
	var errs []error
	read := func(name string) string {
		data, err := fs.ReadFile(root, "proc/sys/"+strings.ReplaceAll(name, ".", "/"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sysctl %s: %w", name, err))
		}
		// The kernel separates the values of a sysctl by tabs.
		return strings.Join(strings.Fields(string(data)), " ")
	}
	h.CongestionControls = append(h.CongestionControls, strings.Fields(read("net.ipv4.tcp_available_congestion_control"))...)
	h.CongestionControl = read("net.ipv4.tcp_congestion_control")
	for _, name := range recordedSysctls {
		if v := read(name); v != "" {
			h.Sysctls[name] = v
		}
	}
	return errors.Join(errs...)
}

// eachField calls f for every "key : value" line.
func eachField(data []byte, f func(key, value string)) {
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok {
			f(strings.TrimSpace(key), strings.TrimSpace(value))
		}
	}
}
