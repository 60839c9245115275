package results

// Machine is host.json: what a reader needs to judge or repeat a run. It holds no
// host, user or network names.
type Machine struct {
	Netkvlab     string `json:"netkvlab"` // version
	Go           string `json:"go"`
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Kernel       string `json:"kernel"` // release, as uname -r
	// CPUModel is absent where the kernel does not name it (most ARM machines).
	CPUModel string `json:"cpu_model,omitempty"`
	// CPUs counts the logical CPUs of the host, CPUsUsable those on which this process may run.
	CPUs        int   `json:"cpus"`
	CPUsUsable  int   `json:"cpus_usable"`
	MemoryBytes int64 `json:"memory_bytes"`
	// CongestionControls are those that the kernel offers, CongestionControl is its default. A
	// run's sockets used the scenario's transfer.congestionControl.
	CongestionControls []string `json:"congestion_controls"`
	CongestionControl  string   `json:"congestion_control"`
	// Sysctls are the host's settings that affect the agents' TCP; missing ones are absent.
	Sysctls map[string]string `json:"sysctls"`
	// Runtimes maps a container runtime to its version; empty when none was used.
	Runtimes map[string]string `json:"runtimes"`
}
