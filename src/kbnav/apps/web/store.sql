-- The tables of the server; what SQLite and PostgreSQL both read.
CREATE TABLE IF NOT EXISTS web_sessions (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, kb TEXT NOT NULL, system TEXT NOT NULL, model TEXT NOT NULL,
    title TEXT NOT NULL, made DOUBLE PRECISION NOT NULL);
CREATE INDEX IF NOT EXISTS web_sessions_owner ON web_sessions (owner, made);
CREATE TABLE IF NOT EXISTS web_runs (
    id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL, kb TEXT NOT NULL, system TEXT NOT NULL,
    model TEXT NOT NULL, question TEXT NOT NULL, status TEXT NOT NULL, worker TEXT NOT NULL,
    beat DOUBLE PRECISION NOT NULL, stopping INTEGER NOT NULL, share TEXT, made DOUBLE PRECISION NOT NULL,
    answer TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS web_runs_session ON web_runs (session, made);
CREATE INDEX IF NOT EXISTS web_runs_owner ON web_runs (owner, made);
CREATE UNIQUE INDEX IF NOT EXISTS web_runs_share ON web_runs (share);
-- One session answers one question at a time, whichever worker is asked.
CREATE UNIQUE INDEX IF NOT EXISTS web_runs_one ON web_runs (session) WHERE session <> '' AND status IN ('queued', 'running');
-- Whose runs are under way is looked at every two seconds, however many others are kept.
DROP INDEX IF EXISTS web_runs_worker;
CREATE INDEX IF NOT EXISTS web_runs_worker_beat ON web_runs (worker, beat) WHERE status IN ('queued', 'running');
CREATE TABLE IF NOT EXISTS web_events (
    run TEXT NOT NULL, number INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run, number));
-- Apart from the runs, because questions of a deleted session still count for the day.
CREATE TABLE IF NOT EXISTS web_asked (owner TEXT NOT NULL, made DOUBLE PRECISION NOT NULL);
CREATE TABLE IF NOT EXISTS web_alive (worker TEXT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL);
CREATE INDEX IF NOT EXISTS web_asked_owner ON web_asked (owner, made);
CREATE TABLE IF NOT EXISTS web_results (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, kb TEXT NOT NULL, language TEXT NOT NULL, session TEXT NOT NULL,
    made DOUBLE PRECISION NOT NULL, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS web_parts (
    result TEXT NOT NULL, number INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (result, number));
-- How much each owner's results take; rows go, oldest first, where it is more than they may.
CREATE TABLE IF NOT EXISTS web_kept (
    result TEXT PRIMARY KEY, owner TEXT NOT NULL, parts INTEGER NOT NULL, last INTEGER NOT NULL,
    bytes BIGINT NOT NULL, made DOUBLE PRECISION NOT NULL);
CREATE INDEX IF NOT EXISTS web_kept_owner ON web_kept (owner, made);
CREATE TABLE IF NOT EXISTS web_logouts (login TEXT PRIMARY KEY, made DOUBLE PRECISION NOT NULL);
CREATE TABLE IF NOT EXISTS web_saved (id TEXT PRIMARY KEY, run TEXT NOT NULL, document BYTEA NOT NULL);
CREATE INDEX IF NOT EXISTS web_saved_run ON web_saved (run);
