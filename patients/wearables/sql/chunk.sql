-- A day of a series of samples. Django does not support PARTITION BY. Wide columns are first, so that no
-- column is padded.
CREATE TABLE IF NOT EXISTS wearables_chunk (
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    series_id integer NOT NULL,
    day date NOT NULL,
    block integer NOT NULL,
    divisor integer NOT NULL,
    source integer NOT NULL,
    number integer,
    zone integer,
    length integer,
    seconds integer[] NOT NULL,
    micros integer[],
    scaled integer[],
    wide double precision[],
    numbers integer[],
    zones integer[],
    lengths integer[],
    sources integer[],
    tail_seconds integer[],
    tail_scaled integer[],
    tail_wide double precision[],
    tail_numbers integer[],
    extras jsonb,
    PRIMARY KEY (series_id, day)
) PARTITION BY RANGE (day);
