package host

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

func measured() *Calibration {
	return &Calibration{
		Format: calibrationFormat, Kernel: "6.18.1", CPUModel: "Model", CPUs: 2, Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Steps:   []Step{{Rate: 25e6, Segments: 2, HopsPerCore: 300e3}},
		OneFlow: Throughput{HopsPerSecond: 761e3, BitsPerSecond: 1.43e9, Idle: 0.5},
	}
}

func TestACalibrationComesBackAsSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "labs")
	_, err := ReadCalibration(dir)
	require.ErrorIs(t, err, ErrNone)
	c := measured()
	require.NoError(t, c.Save(dir))
	got, err := ReadCalibration(dir)
	require.NoError(t, err)
	assert.Equal(t, c, got)
}

func TestOnlyThisHostsFreshCalibrationIsValid(t *testing.T) {
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		change func(c *Calibration)
		says   string // "" if valid
	}{
		"as measured":       {func(*Calibration) {}, ""},
		"another kernel":    {func(c *Calibration) { c.Kernel = "6.1.0" }, "is of Linux 6.1.0, this is 6.18.1"},
		"another CPU":       {func(c *Calibration) { c.CPUModel = "Other" }, "(Other)"},
		"more CPUs":         {func(c *Calibration) { c.CPUs = 8 }, "8 CPUs"},
		"old":               {func(c *Calibration) { c.Date = now.AddDate(-1, 0, 0) }, "of 2025-02-01"},
		"from the future":   {func(c *Calibration) { c.Date = now.AddDate(1, 0, 0) }, "of 2027-02-01"},
		"another format":    {func(c *Calibration) { c.Format = 99 }, "format 99"},
		"without any steps": {func(c *Calibration) { c.Steps = nil }, "no steps"},
	} {
		t.Run(name, func(t *testing.T) {
			c := measured()
			tt.change(c)
			err := c.Valid(&results.Machine{Kernel: "6.18.1", CPUModel: "Model", CPUsUsable: 2}, now)
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Contains(t, err.Error(), tt.says)
			assert.Contains(t, err.Error(), "doctor --calibrate", "the way out")
		})
	}
}

func TestWithoutAValidCalibrationTheConstantsHold(t *testing.T) {
	proc := procOf(t, map[string]string{
		"sys/kernel/osrelease": "6.18.1\n",
		"cpuinfo":              "processor : 0\nmodel name : Model\n",
		"meminfo":              "MemTotal: 1024 kB\n",
	})
	dir := t.TempDir()
	h, err := Carries(dir, proc, time.Now())
	require.ErrorIs(t, err, ErrNone)
	assert.ErrorContains(t, err, "doctor --calibrate", "the way out")
	assert.Equal(t, Uncalibrated(h.Cores), h)

	c, err := NewCalibration(proc, time.Now())
	require.NoError(t, err)
	c.Steps = measured().Steps
	require.NoError(t, c.Save(dir))
	h, err = Carries(dir, proc, time.Now())
	require.NoError(t, err)
	assert.True(t, h.Calibrated)
	assert.Equal(t, c.Steps, h.Steps)

	require.NoError(t, os.WriteFile(filepath.Join(dir, calibrationFile), []byte(`{"format"`), 0o600))
	h, err = Carries(dir, proc, time.Now())
	require.ErrorContains(t, err, "damaged")
	assert.False(t, h.Calibrated)
	assert.Positive(t, h.Cores)
	h, err = Carries(dir, t.TempDir(), time.Now())
	require.Error(t, err, "a host that says nothing")
	assert.Positive(t, h.Cores)
}

func TestPrintSaysWhenOthersWereBusy(t *testing.T) {
	c := measured()
	var quiet, busy bytes.Buffer
	require.NoError(t, c.Print(&quiet))
	assert.Contains(t, quiet.String(), "300k")
	assert.NotContains(t, quiet.String(), "Other programs")
	c.Others = 0.1
	require.NoError(t, c.Print(&busy))
	assert.Contains(t, busy.String(), "Other programs used 10% of the CPUs")
}
