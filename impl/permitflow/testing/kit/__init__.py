"""The conformance kit: adapters in, verdicts out.  ``permitflow.testing`` exports its public names."""
