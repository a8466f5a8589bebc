"""The conformance kit: adapters in, verdicts out.  ``permitflow.testing`` names what is for users."""
