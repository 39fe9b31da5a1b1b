-- Version 1. Times are UTC text of one width, so that they sort; durations are
-- nanoseconds; numbers of samples and of what is in them begin with 0.

CREATE TABLE run (
	seq           INTEGER PRIMARY KEY, -- in the order of adding
	id            TEXT NOT NULL UNIQUE,
	name          TEXT NOT NULL,
	made          TEXT NOT NULL,
	at            TEXT NOT NULL,
	scenario      TEXT NOT NULL,
	scenario_hash TEXT NOT NULL,
	fingerprint   TEXT NOT NULL,
	paired_with   TEXT NOT NULL,
	scenario_text TEXT NOT NULL,
	strict        TEXT NOT NULL, -- a JSON object of texts
	soft          TEXT NOT NULL  -- likewise
) STRICT;
CREATE INDEX run_at ON run (at, seq);
CREATE INDEX run_name ON run (name, at, seq);

CREATE TABLE sample (
	run      INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
	number   INTEGER NOT NULL,
	pair     INTEGER NOT NULL,
	position INTEGER NOT NULL, -- among all samples of the session
	at       TEXT NOT NULL,
	valid    INTEGER NOT NULL,
	reasons  TEXT NOT NULL, -- a JSON array of texts
	PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric (
	run    INTEGER NOT NULL,
	sample INTEGER NOT NULL,
	number INTEGER NOT NULL,
	name   TEXT NOT NULL,
	unit   TEXT NOT NULL,
	better TEXT NOT NULL,
	value  REAL, -- null: no figure
	PRIMARY KEY (run, sample, number),
	FOREIGN KEY (run, sample) REFERENCES sample ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE series (
	run     INTEGER NOT NULL,
	sample  INTEGER NOT NULL,
	number  INTEGER NOT NULL,
	name    TEXT NOT NULL,
	unit    TEXT NOT NULL,
	start   INTEGER NOT NULL,
	step    INTEGER NOT NULL,
	figures TEXT NOT NULL, -- a JSON array; null: no figure
	PRIMARY KEY (run, sample, number),
	FOREIGN KEY (run, sample) REFERENCES sample ON DELETE CASCADE
) STRICT;

-- What is the same is stored once.
CREATE TABLE blob (
	id     INTEGER PRIMARY KEY,
	sha256 TEXT NOT NULL UNIQUE,
	size   INTEGER NOT NULL,
	data   BLOB NOT NULL
) STRICT;

CREATE TABLE histogram (
	run    INTEGER NOT NULL,
	sample INTEGER NOT NULL,
	number INTEGER NOT NULL,
	name   TEXT NOT NULL,
	start  INTEGER NOT NULL,
	stop   INTEGER NOT NULL,
	blob   INTEGER NOT NULL REFERENCES blob,
	PRIMARY KEY (run, sample, number),
	FOREIGN KEY (run, sample) REFERENCES sample ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX histogram_blob ON histogram (blob);

CREATE TABLE artefact (
	run    INTEGER NOT NULL,
	sample INTEGER NOT NULL,
	number INTEGER NOT NULL,
	kind   TEXT NOT NULL,
	name   TEXT NOT NULL,
	blob   INTEGER NOT NULL REFERENCES blob,
	PRIMARY KEY (run, sample, number),
	FOREIGN KEY (run, sample) REFERENCES sample ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX artefact_blob ON artefact (blob);

-- A run that is a baseline cannot go.
CREATE TABLE baseline (
	name TEXT PRIMARY KEY,
	run  INTEGER NOT NULL REFERENCES run,
	at   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX baseline_run ON baseline (run);

-- For people: every figure in one line.
CREATE VIEW figure AS
	SELECT run.id, run.name, run.scenario, run.at, sample.number AS sample, sample.pair,
		sample.valid, metric.name AS metric, metric.unit, metric.value
	FROM run
	JOIN sample ON sample.run = run.seq
	JOIN metric ON metric.run = sample.run AND metric.sample = sample.number;
