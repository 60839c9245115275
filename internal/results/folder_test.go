package results

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// madeSummary is a summary with arbitrary figures, since this package only knows the format.
func madeSummary() *Summary {
	return &Summary{
		Format: FormatVersion, Scenario: "made-up", Seeds: []uint64{1, 2, 3, math.MaxUint64}, Policies: []string{"rr"},
		Fidelity: Fidelity{Verdict: VerdictGood, Reasons: []string{}, Notes: []string{}}, Gains: []Gain{},
		Worlds: map[string]map[string]*Group{WorldFlow: {"rr": {Requests: Counts{Submitted: 1, Completed: 1}, TTFT: &Stats{N: 1, Mean: 5, CI95: ptr(2)}}}},
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestRunFolderReadsBackAsWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "parent", "run")
	records := madeRun(5)
	w, err := Create(dir)
	require.NoError(t, err)
	for i := range records {
		require.NoError(t, w.Append(records[i]))
	}
	machine := &Machine{Kernel: "6.18.0", CongestionControls: []string{}, Sysctls: map[string]string{}, Runtimes: map[string]string{}}
	require.NoError(t, w.WriteFile(ScenarioFile, []byte("name: made-up\n")))
	require.NoError(t, w.WriteHost(machine))
	summary := madeSummary()
	require.NoError(t, w.Finish(summary))
	require.NoError(t, w.Close(), "after Finish, Close has nothing to do")
	assert.Equal(t, []string{HostFile, LinksFile, RequestsFile, ScenarioFile, SummaryFile}, names(t, dir))

	run, err := Open(dir)
	require.NoError(t, err)
	assert.Equal(t, records, run.Records)
	assert.Equal(t, summary, run.Summary)
	data, err := os.ReadFile(filepath.Join(dir, HostFile))
	require.NoError(t, err)
	var host Machine
	require.NoError(t, json.Unmarshal(data, &host))
	assert.Equal(t, *machine, host)
	assert.Equal(t, "name: made-up\n", string(run.Scenario))
}

func TestFolderWithContentIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	_, err := Create(dir)
	require.ErrorContains(t, err, "--out")
	assert.ErrorContains(t, err, "mine")
	assert.Equal(t, []string{"mine"}, names(t, dir), "nothing was added")

	_, err = Create(filepath.Join(dir, "mine"))
	require.Error(t, err, "a file is no folder")
}

func TestEmptyFolderIsTaken(t *testing.T) {
	t.Parallel()
	w, err := Create(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

func TestKilledRunKeepsItsLinesUnderThePartialName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	records := madeRun(2)
	require.NoError(t, w.Append(records[0]))
	require.NoError(t, w.Flush()) // the process dies after this line
	data, err := os.ReadFile(filepath.Join(dir, RequestsFile+partialSuffix))
	require.NoError(t, err)
	got, err := ReadRecords(strings.NewReader(string(data)), "partial")
	require.NoError(t, err)
	assert.Equal(t, records[:1], got)

	_, err = Open(dir)
	require.ErrorIs(t, err, ErrUnfinished)
	require.ErrorContains(t, err, RequestsFile+partialSuffix)
	require.NoError(t, w.Close())
	require.Error(t, w.Append(records[1]), "closed is closed")
}

func TestDiscardLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.WriteFile(ScenarioFile, []byte("name: x\n")))
	require.NoError(t, w.Discard())
	assert.NoDirExists(t, dir)
	require.NoError(t, w.Discard(), "twice is once")
	require.NoError(t, w.Close())

	w, err = Create(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	require.NoError(t, w.Discard())
	assert.Equal(t, []string{"mine"}, names(t, dir), "what others put there stays")

	empty := t.TempDir()
	w, err = Create(empty)
	require.NoError(t, err)
	require.NoError(t, w.Discard())
	assert.Empty(t, names(t, empty), "a folder that was there before stays")
}

func TestOpenExplainsWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := Open(filepath.Join(t.TempDir(), "nowhere"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(t.TempDir())
	require.ErrorIs(t, err, ErrUnfinished)
	assert.ErrorContains(t, err, "not a run folder")
}

func TestReadingBadLinesNamesFileAndLine(t *testing.T) {
	t.Parallel()
	good := `{"world":"flow","policy":"rr","seed":1,"id":0,"status":"completed"}` + "\n"
	tests := []struct{ name, in, want string }{
		{"not JSON", good + "nonsense\n", "r.jsonl:2: "},
		{"wrong type", `{"seed":"one"}` + "\n", "r.jsonl:1: "},
		{"cut off", good + good[:20], "r.jsonl:2: the line was cut off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadRecords(strings.NewReader(tt.in), "r.jsonl")
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestSeedsBeyondFloatsSurvive(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	r := madeRecord(rand.New(rand.NewPCG(1, 1)), WorldFlow, "rr", math.MaxUint64, 0)
	w, err := Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.Append(r))
	require.NoError(t, w.Finish(madeSummary()))
	run, err := Open(dir)
	require.NoError(t, err)
	assert.Equal(t, uint64(math.MaxUint64), run.Records[0].Seed)
	assert.Equal(t, uint64(math.MaxUint64), run.Summary.Seeds[3])
}

func TestRecordThatIsNoJSONIsRefused(t *testing.T) {
	t.Parallel()
	w, err := Create(t.TempDir())
	require.NoError(t, err)
	r := madeRecord(rand.New(rand.NewPCG(1, 1)), WorldFlow, "rr", 1, 3)
	r.TransferMS = math.NaN()
	require.ErrorContains(t, w.Append(r), "request 3")
	require.NoError(t, w.Close())
}

func TestConcurrentAppendsKeepLinesWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	records := madeRun(10)
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			for i := part; i < len(records); i += 4 {
				assert.NoError(t, w.Append(records[i]))
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Finish(madeSummary()))
	run, err := Open(dir)
	require.NoError(t, err)
	assert.ElementsMatch(t, records, run.Records)
}

func TestLinkSamplesAreCSV(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.AppendLinks(LinkSample{
		TimeMS: 250, World: WorldPacket, Policy: "cla, tuned", Seed: 1, Link: "tor0-0-agg0-1", Direction: "up",
		BytesEmulated: 1 << 33, Utilization: 0.5, Drops: 3, BacklogBytes: 65536, Marks: 9,
	}))
	require.NoError(t, w.Finish(madeSummary()))
	f, err := os.Open(filepath.Join(dir, LinksFile))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	assert.Equal(t, []string{"time_ms", "world", "policy", "seed", "link", "direction", "bytes_emulated", "utilization", "drops", "backlog_bytes", "marks"}, rows[0])
	assert.Equal(t, []string{"250.000", "packet", "cla, tuned", "1", "tor0-0-agg0-1", "up", "8589934592", "0.5000", "3", "65536", "9"}, rows[1])
}

func TestFileNamesStayInTheFolder(t *testing.T) {
	t.Parallel()
	w, err := Create(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"../x", "a/b", "..", ".", ""} {
		require.Error(t, w.WriteFile(name, nil), name)
	}
	require.NoError(t, w.WriteFile("report.html", []byte("<html>")))
	require.NoError(t, w.Close())
}

// TestFullDiskIsReported writes to /dev/full, which behaves like a full disk.
func TestFullDiskIsReported(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("/dev/full: %v", err)
	}
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.requests.file.Close())
	w.requests.file = full
	w.requests.buf.Reset(full)

	r := madeRecord(rand.New(rand.NewPCG(1, 1)), WorldPacket, "rr", 1, 0)
	require.NoError(t, w.Append(r), "still in the buffer")
	require.ErrorIs(t, w.Flush(), syscall.ENOSPC)
	require.ErrorIs(t, w.Append(r), syscall.ENOSPC, "the error stays")
	require.ErrorIs(t, w.Finish(madeSummary()), syscall.ENOSPC)
	_, err = Open(dir)
	require.Error(t, err, "no summary over lost rows")
	require.False(t, errors.Is(err, os.ErrNotExist) && !errors.Is(err, ErrUnfinished))
}
