package compare

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// Source is one side of a comparison, ready to be compared. It is not changed once loaded.
type Source struct {
	info      SourceInfo
	run       *results.Run                 // nil for a CSV file
	table     analysis.Table               // all in one run, named ""
	prints    map[analysis.Key]fingerprint // show whether a key names the same request in two sources; empty for a CSV file
	requests  map[string]int               // by policy
	completed map[string]int
	payload   bool     // of a run without packets: its links carry payload at their full rate
	ignored   []string // unknown columns of a CSV file
}

// fingerprint identifies a request.
type fingerprint struct {
	arrivalMS float64
	tokens    int
}

// Load reads what an argument names: a run folder, a run folder and one of its worlds
// (DIR:packet, DIR:flow, DIR:replay), or a CSV file. If no world is named, it takes the packet
// world if that ran, else the flow world. Errors name the file and, if there is one, the line.
func Load(name string) (*Source, error) {
	path, world := name, ""
	info, err := os.Stat(path)
	if err != nil {
		if i := strings.LastIndex(name, ":"); i >= 0 && slices.Contains(worldNames, name[i+1:]) {
			path, world = name[:i], name[i+1:]
			info, err = os.Stat(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: no run folder and no CSV file: %w", name, err)
	}
	if !info.IsDir() {
		if world != "" {
			return nil, fmt.Errorf("%s: a CSV file has no worlds: name it without :%s", name, world)
		}
		return loadCSV(path)
	}
	run, err := results.Open(path)
	if err != nil {
		return nil, err
	}
	return ofRun(name, run, world)
}

// worldNames is in the order in which a world is chosen if none is named.
var worldNames = []string{results.WorldPacket, results.WorldFlow, results.WorldReplay}

func newSource(name string) *Source {
	return &Source{
		info: SourceInfo{Name: name, Policies: []string{}, Seeds: []uint64{}}, table: analysis.Table{},
		prints: map[analysis.Key]fingerprint{}, requests: map[string]int{}, completed: map[string]int{},
	}
}

// ofRun takes one world's records out of a run.
func ofRun(name string, run *results.Run, world string) (*Source, error) {
	ran := map[string]bool{}
	for i := range run.Records {
		ran[run.Records[i].World] = true
	}
	if len(ran) == 0 {
		return nil, fmt.Errorf("%s: the run has no requests", run.Dir)
	}
	for _, w := range worldNames {
		if world == "" && ran[w] {
			world = w
		}
	}
	if !ran[world] {
		return nil, fmt.Errorf("%s: no requests of the %s world: it has %s", run.Dir, world, strings.Join(slices.Sorted(maps.Keys(ran)), ", "))
	}
	s := newSource(name)
	s.run, s.payload = run, !ran[results.WorldPacket]
	s.info.World, s.info.Scenario = world, run.Summary.Scenario
	if world == results.WorldPacket {
		s.info.Verdict = run.Summary.Fidelity.Verdict
	}
	for i := range run.Records {
		r := &run.Records[i]
		if r.World != world {
			continue
		}
		key := analysis.Key{Seed: r.Seed, ID: r.ID}
		s.prints[key] = fingerprint{r.ArrivalMS, r.PromptTokens}
		s.add(r.Policy, key, r.Status, r.TTFTMS, &r.TransferMS)
	}
	// The policies are in the order of the summary; others follow by name.
	place := func(policy string) int {
		if i := slices.Index(run.Summary.Policies, policy); i >= 0 {
			return i
		}
		return len(run.Summary.Policies)
	}
	slices.SortFunc(s.info.Policies, func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b)) })
	return s, nil
}

// add takes one request's figures, nil where it has none.
func (s *Source) add(policy string, key analysis.Key, status string, ttft, transfer *float64) {
	if s.requests[policy] == 0 {
		s.info.Policies = append(s.info.Policies, policy)
	}
	s.requests[policy]++
	s.info.Requests++
	if status != results.Completed {
		return
	}
	s.completed[policy]++
	s.info.Completed++
	s.table.Set(analysis.Cell{Policy: policy, Metric: results.MetricTTFT}, key, ttft)
	s.table.Set(analysis.Cell{Policy: policy, Metric: results.MetricTransfer}, key, transfer)
	if i, known := slices.BinarySearch(s.info.Seeds, key.Seed); !known {
		s.info.Seeds = slices.Insert(s.info.Seeds, i, key.Seed)
	}
}

// Label is the source's name with the world that was taken.
func (s *Source) Label() string {
	if s.info.World == "" || strings.HasSuffix(s.info.Name, ":"+s.info.World) {
		return s.info.Name
	}
	return s.info.Name + " (" + s.info.World + ")"
}

// The columns of another simulator's results.
const (
	columnPolicy   = "policy"
	columnSeed     = "seed"
	columnID       = "id"
	columnTTFT     = results.MetricTTFT
	columnTransfer = results.MetricTransfer
	columnStatus   = "status"
)

// csvColumns lists the columns for messages.
var csvColumns = []string{columnPolicy, columnSeed, columnID, columnTTFT, columnTransfer, columnStatus}

func loadCSV(path string) (*Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	return readCSV(f, path)
}

// readCSV reads one request per line. Errors begin with "name:line:".
func readCSV(r io.Reader, name string) (*Source, error) {
	in := &csvReader{Reader: csv.NewReader(r), name: name, lines: map[rowKey]int{}, source: newSource(name)}
	in.ReuseRecord = true
	in.FieldsPerRecord = -1 // checked here, with a message that names the column
	if err := in.header(); err != nil {
		return nil, err
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = in.take(row)
		}
		if err != nil {
			return nil, in.at(err)
		}
	}
	if len(in.lines) == 0 {
		return nil, fmt.Errorf("%s: no requests below the header", name)
	}
	return in.source, nil
}

type csvReader struct {
	*csv.Reader
	name    string
	index   map[string]int // of each known column; absent ones are not in it
	columns int
	lines   map[rowKey]int
	source  *Source
}

type rowKey struct {
	policy string
	analysis.Key
}

// at puts the file name and line before an error.
func (in *csvReader) at(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%s:%d: %w", in.name, parse.Line, parse.Err)
	}
	line, _ := in.FieldPos(0)
	return fmt.Errorf("%s:%d: %w", in.name, line, err)
}

func (in *csvReader) header() error {
	row, err := in.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the file is empty; want a header of %s", in.name, strings.Join(csvColumns, ","))
	}
	if err != nil {
		return in.at(err)
	}
	in.index, in.columns = map[string]int{}, len(row)
	for i, head := range row {
		head = strings.TrimSpace(strings.TrimPrefix(head, "\ufeff")) // spreadsheets write a byte order mark
		if !slices.Contains(csvColumns, head) {
			in.source.ignored = append(in.source.ignored, head)
			continue
		}
		if _, twice := in.index[head]; twice {
			return in.at(fmt.Errorf("column %s is there twice", head))
		}
		in.index[head] = i
	}
	for _, need := range []string{columnPolicy, columnSeed, columnID} {
		if _, ok := in.index[need]; !ok {
			return in.at(fmt.Errorf("no column %s; want %s (status may be left out)", need, strings.Join(csvColumns, ",")))
		}
	}
	_, ttft := in.index[columnTTFT]
	_, transfer := in.index[columnTransfer]
	if !ttft && !transfer {
		return in.at(fmt.Errorf("neither %s nor %s: there is nothing to compare", columnTTFT, columnTransfer))
	}
	return nil
}

// take adds a line to the source.
func (in *csvReader) take(row []string) error {
	if len(row) != in.columns {
		return fmt.Errorf("%d fields, the header has %d", len(row), in.columns)
	}
	key := rowKey{policy: strings.Clone(in.field(row, columnPolicy))}
	if key.policy == "" {
		return errors.New("policy is empty")
	}
	var err error
	if key.Seed, err = strconv.ParseUint(in.field(row, columnSeed), 10, 64); err != nil {
		return fmt.Errorf("seed %q: want a whole number, at least 0", in.field(row, columnSeed))
	}
	if key.ID, err = strconv.Atoi(in.field(row, columnID)); err != nil || key.ID < 0 {
		return fmt.Errorf("id %q: want a whole number, at least 0", in.field(row, columnID))
	}
	line, _ := in.FieldPos(0)
	if before, twice := in.lines[key]; twice {
		return fmt.Errorf("%s, seed %d, request %d is in line %d already", key.policy, key.Seed, key.ID, before)
	}
	in.lines[key] = line
	status := in.field(row, columnStatus)
	switch status {
	case "":
		status = results.Completed
	case results.Completed, results.Failed, results.Incomplete:
	default:
		return fmt.Errorf("status %q: want %s, %s or %s", status, results.Completed, results.Failed, results.Incomplete)
	}
	ttft, err := in.ms(row, columnTTFT)
	if err != nil {
		return err
	}
	transfer, err := in.ms(row, columnTransfer)
	if err != nil {
		return err
	}
	if status == results.Completed && ttft == nil && transfer == nil {
		return fmt.Errorf("completed without a time: %s and %s are empty", columnTTFT, columnTransfer)
	}
	in.source.add(key.policy, key.Key, status, ttft, transfer)
	return nil
}

// field is a column's value, empty where there is no such column.
func (in *csvReader) field(row []string, name string) string {
	i, ok := in.index[name]
	if !ok {
		return ""
	}
	return strings.TrimSpace(row[i])
}

// ms is a time, nil where the field is empty.
func (in *csvReader) ms(row []string, name string) (*float64, error) {
	text := in.field(row, name)
	if text == "" {
		return nil, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return nil, fmt.Errorf("%s %q: want milliseconds, finite and at least 0", name, text)
	}
	return &v, nil
}
