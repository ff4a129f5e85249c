-- An order shows the worse of what its own record says and of what its result says: the result
-- raises it and never lowers it. Orders without a result are left as they are written.
CREATE OR REPLACE FUNCTION orders_show_interpretation() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
 ranks CONSTANT text[] := ARRAY['critical', 'abnormal', 'unknown', 'normal'];
 own integer;
 of_result integer;
BEGIN
 NEW.service_interpretation := coalesce(NEW.service_interpretation, NEW.interpretation, '');
 own := array_position(ranks, NEW.service_interpretation);
 of_result := array_position(ranks, NEW.result_interpretation);
 NEW.interpretation := coalesce(ranks[least(own, of_result)], nullif(NEW.service_interpretation, ''));
 RETURN NEW;
END $$;
