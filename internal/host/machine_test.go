package host

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// procOf writes a proc file system with these files.
func procOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func fakeMachine() map[string]string {
	return map[string]string{
		"sys/kernel/osrelease": "6.18.0-netkv\n",
		"cpuinfo": "processor\t: 0\nmodel name\t: Test CPU @ 2.0GHz\nflags\t\t: fpu\npower management:\n\n" +
			"processor\t: 1\nmodel name\t: Test CPU @ 2.0GHz\n",
		"meminfo": "MemTotal:        8000000 kB\nMemFree:         1 kB\nMemAvailable:    2000 kB\nHugePages_Total: 0\n",
		"sys/net/ipv4/tcp_available_congestion_control": "reno cubic\n",
		"sys/net/ipv4/tcp_congestion_control":           "cubic\n",
		"sys/net/ipv4/tcp_rmem":                         "4096\t131072\t6291456\n",
	}
}

func TestAMachineIsReadFromProc(t *testing.T) {
	t.Parallel()
	m, err := Describe(procOf(t, fakeMachine()), "v1", map[string]string{"docker": "20.10.24"})
	require.NoError(t, err)
	assert.Equal(t, "6.18.0-netkv", m.Kernel)
	assert.Equal(t, "Test CPU @ 2.0GHz", m.CPUModel)
	assert.Equal(t, 2, m.CPUs)
	assert.Equal(t, int64(8192000000), m.MemoryBytes)
	assert.Equal(t, []string{"reno", "cubic"}, m.CongestionControls)
	assert.Equal(t, "cubic", m.CongestionControl)
	assert.Equal(t, map[string]string{"net.ipv4.tcp_rmem": "4096 131072 6291456"}, m.Sysctls)
	assert.Equal(t, "20.10.24", m.Runtimes["docker"])
	assert.Positive(t, m.CPUsUsable)
}

func TestAMachineWithoutModelNameOrCongestionList(t *testing.T) {
	t.Parallel()
	files := fakeMachine()
	files["cpuinfo"] = "processor\t: 0\nBogoMIPS\t: 50.00\n"
	delete(files, "sys/net/ipv4/tcp_available_congestion_control")
	m, err := Describe(procOf(t, files), "v1", nil)
	require.NoError(t, err)
	assert.Empty(t, m.CPUModel)
	assert.NotNil(t, m.CongestionControls, "an empty list is [], not null")
	assert.NotNil(t, m.Runtimes)
}

func TestAMachineWithoutProcIsAnError(t *testing.T) {
	t.Parallel()
	_, err := Describe(t.TempDir(), "v1", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	files := fakeMachine()
	files["meminfo"] = "MemTotal: lots\n"
	_, err = Describe(procOf(t, files), "v1", nil)
	require.ErrorContains(t, err, "read the host's memory")
}

func TestAvailableMemoryIsTheKernelsEstimate(t *testing.T) {
	t.Parallel()
	free, err := AvailableMemory(procOf(t, fakeMachine()))
	require.NoError(t, err)
	assert.EqualValues(t, 2000<<10, free)
	_, err = AvailableMemory(procOf(t, map[string]string{"meminfo": "MemTotal: 1 kB\n"}))
	require.ErrorContains(t, err, "no MemAvailable")
}
